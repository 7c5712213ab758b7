// What a person has allowed for the session that is open: such questions are answered here, as long as the tab is open
// and the permission is not taken back. The server knows nothing of it: what asks still asks.
import { button, byId, h, icon, show } from '../dom.js';
import { openCalls } from '../state/state.js';
import { exactLines } from '../text/exact.js';
import { firstLine } from '../text/format.js';
import { covers, scopeWords } from '../text/scope.js';

/** Where a tab keeps them when its page is loaded again. */
const KEPT = 'longhaul-allowed';

/** What a page of this tab has kept; nothing where nothing can be kept. */
function kept() {
  try {
    const all = Object.entries(JSON.parse(sessionStorage.getItem(KEPT) ?? '{}'));
    return new Map(all.map(([sessionId, scopes]) => [sessionId, scopes.filter((scope) => scope?.tool)]));
  } catch {
    return new Map();
  }
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class Allowed {
  /** `decide(sessionId, approvalId)` answers yes; `refused(problem)` hears why it could not be said. */
  constructor({ decide, refused }) {
    Object.assign(this, { decide, refused });
    this.place = byId('allowed');
    /** Permissions by session. */
    this.scopes = kept();
    this.answered = new Set();
  }

  of(sessionId) {
    return this.scopes.get(sessionId) ?? [];
  }

  add(sessionId, scope) {
    this.set(sessionId, [...this.of(sessionId).filter((each) => !isSame(each, scope)), scope]);
  }

  set(sessionId, scopes) {
    this.scopes.set(sessionId, scopes);
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(this.scopes)));
    } catch {
      // Then they hold until the page is loaded again.
    }
  }

  takeBack(sessionId, scope) {
    this.set(sessionId, this.of(sessionId).filter((each) => !isSame(each, scope)));
    this.draw(sessionId);
  }

  /** Answers what is asked and allowed, each question once. */
  update(state) {
    const { sessionId } = state;
    const scopes = this.of(sessionId);
    if (scopes.length) {
      for (const call of openCalls(state)) {
        const { approval } = call;
        const scope = scopes.find((each) => covers(each, call));
        if (!approval || approval.decision || !scope || this.answered.has(approval.id)) continue;
        this.answered.add(approval.id);
        this.decide(sessionId, approval.id).catch((problem) => {
          this.answered.delete(approval.id);
          this.takeBack(sessionId, scope);
          this.refused(problem);
        });
      }
    }
    this.draw(sessionId);
  }

  draw(sessionId) {
    const scopes = this.of(sessionId);
    const key = JSON.stringify([sessionId, scopes]);
    if (this.shown === key) return;
    this.shown = key;
    this.place.hidden = scopes.length === 0;
    show(this.place, scopes.map((scope) => {
      // A command may be long: the line of the chip says its beginning, and the whole stands behind it.
      const words = scope.command === undefined ? scopeWords(scope) : firstLine(exactLines(scope.command).join(' ⏎ '), 60);
      const what = scope.path === undefined ? [h('code', {}, words), ' runs without asking'] : ['changes of ', h('code', {}, words), ' need no asking'];
      return h(
        'li.chip.allowed', {}, icon('check'),
        h('span.chip-text', { title: 'Such calls are allowed as long as this tab is open. ✕ ends that.' }, ...what),
        button(`Ask again before ${words} runs`, { symbol: 'close', onlyIcon: true, onclick: () => { this.takeBack(sessionId, scope); byId('input').focus(); } }),
      );
    }));
  }
}
