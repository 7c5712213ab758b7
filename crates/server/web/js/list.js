// The list of sessions is looked at again: while the page is in sight, and when something changes how one stands.
import { showLogin } from './controls/login.js';
import { api } from './net/api.js';
import { currentId, go, page } from './page.js';
import { addressOf } from './text/address.js';

/** What changes how a session stands in the list. */
const CHANGES = new Set(['run:started', 'run:waiting', 'run:complete', 'message:removed', 'message:dequeued', 'tool:approval-request', 'tool:approval-response', 'session:parked']);

const EVERY_MS = 5_000;
const SOON_MS = 120;

export class SessionList {
  /** `sessions` shows it; `changed()` hears when it came. */
  constructor(sessions, changed) {
    Object.assign(this, { sessions, changed, timer: null });
  }

  watch() {
    const look = () => { if (!document.hidden) this.refresh(); };
    setInterval(look, EVERY_MS);
    document.addEventListener('visibilitychange', look);
  }

  /** After events of the open session. */
  told(events) {
    if (!events.some((event) => CHANGES.has(event.name))) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    try {
      page.sessions = (await api.sessions()).sessions;
      page.hasList = true;
      this.draw();
      this.changed();
    } catch (problem) {
      if (problem.status === 401) showLogin();
      else this.sessions.fail(problem);
    }
  }

  draw(id = currentId()) {
    this.sessions.update(page.hasList ? page.sessions : null, id);
  }

  /** The session before the open one, or the next. */
  neighbour(step) {
    const at = page.sessions.findIndex((each) => each.id === currentId());
    const next = page.sessions[at < 0 ? 0 : at + step];
    if (next) go(addressOf(next.id));
  }
}
