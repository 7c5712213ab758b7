// The address says which session is open, and where in it.
import { closeToast } from './controls/toast.js';
import { hideEmpty, showEmpty } from './controls/empty.js';
import { showLogin } from './controls/login.js';
import { byId, setText } from './dom.js';
import { Unreachable } from './net/api.js';
import { currentId, go, page } from './page.js';
import { OpenSession } from './session.js';
import { readAddress } from './text/address.js';

/** A session that comes sooner shows no sign of loading. */
const PATIENCE_MS = 150;
/** Until the page tries by itself to open what did not answer. */
const AGAIN_MS = 3_000;

export class Opening {
  /**
   * `told(events, state)` hears what happens in the open session, `draw()` that something is to be shown; `pickModel()`
   * offers who may answer.
   */
  constructor({ transcript, composer, panel, banner, list, draw, drawNow, told, pickModel }) {
    Object.assign(this, { transcript, composer, panel, banner, list, draw, drawNow, told, pickModel });
    addEventListener('hashchange', () => this.follow());
  }

  async follow() {
    const { id, seq } = readAddress(location.hash);
    closeToast();
    if (id && id === currentId()) {
      if (seq === null) this.transcript.list.toEnd();
      else await this.showPlace(page.open, seq);
      return;
    }
    this.leave(id);
    if (id) {
      hideEmpty();
      await this.open(id, seq);
      return;
    }
    this.panel.close();
    this.draw();
    showEmpty(byId('empty'), { ask: (text, isSent) => this.ask(text, isSent), pickModel: this.pickModel, known: this.draw });
    this.composer.input.focus({ preventScroll: true });
  }

  leave(next) {
    clearTimeout(this.again);
    page.open?.close();
    page.open = null;
    byId('composer').hidden = false;
    this.transcript.reset();
    this.banner.hide();
    byId('loading').hidden = true;
    byId('failed').hidden = true;
    byId('meter').hidden = !next;
    this.list.draw(next);
  }

  /** An example is put into the field, or sent. */
  ask(text, isSent) {
    this.composer.setText(text);
    if (isSent) this.composer.submit();
    else this.composer.input.focus();
  }

  async open(id, seq = null) {
    const slow = setTimeout(() => { byId('loading').hidden = false; }, PATIENCE_MS);
    const open = new OpenSession(id, {
      onChange: this.draw,
      onEvents: this.told,
      onConnection: (line) => {
        if (line.state === 'open') this.composer.connected();
        if (line.problem?.status === 401) showLogin();
        else this.banner.update(line);
      },
    });
    page.open = open;
    try {
      await open.load();
      if (page.open !== open) return;
      byId('failed').hidden = true;
      byId('composer').hidden = false;
      byId('meter').hidden = false;
      this.drawNow();
      this.list.draw(id);
      if (seq !== null) await this.showPlace(open, seq);
      else if (!matchMedia('(pointer: coarse)').matches) this.composer.input.focus({ preventScroll: true });
    } catch (problem) {
      if (page.open === open) this.failed(problem, id, seq);
    } finally {
      clearTimeout(slow);
      if (page.open === open || !page.open) byId('loading').hidden = true;
    }
  }

  /** Older messages are fetched up to a position, and what is there is brought into sight. */
  async showPlace(open, seq) {
    await open.loadTo(seq).catch(() => {});
    if (page.open !== open) return;
    this.drawNow();
    this.transcript.revealSeq(seq);
  }

  /** What would be written now would begin another session, so there is nothing to write into. */
  failed(problem, id, seq) {
    page.open.close();
    page.open = null;
    byId('composer').hidden = true;
    byId('meter').hidden = true;
    this.drawNow();
    if (problem.status === 401) {
      showLogin();
      return;
    }
    byId('failed').hidden = false;
    const isGone = problem.status === 404;
    const isAway = problem instanceof Unreachable;
    setText(byId('failed-text'), isGone ? 'There is no such session here. It may have been deleted.' : `${problem.message} Everything that was said is kept.${isAway ? ' The page tries again by itself.' : ''}`);
    setText(byId('failed-again'), isGone ? 'New session' : 'Try again');
    const again = () => {
      clearTimeout(this.again);
      this.open(id, seq);
    };
    byId('failed-again').onclick = isGone ? () => go('#/') : again;
    if (isAway) this.again = setTimeout(again, AGAIN_MS);
  }
}
