// Tools that a person has allowed for the session that is open: their questions are answered here, as long as the tab
// is open and the permission is not taken back. The server knows nothing of it: what asks still asks.
import { button, byId, h, icon, show } from '../dom.js';
import { openCalls } from '../state/state.js';
import { exact } from '../text/exact.js';

/** Where a tab keeps them when its page is loaded again. */
const KEPT = 'longhaul-allowed';

/** What a page of this tab has kept; nothing where nothing can be kept. */
function kept() {
  try {
    const all = Object.entries(JSON.parse(sessionStorage.getItem(KEPT) ?? '{}'));
    return new Map(all.map(([sessionId, tools]) => [sessionId, new Set(tools)]));
  } catch {
    return new Map();
  }
}

export class Allowed {
  /** `decide(sessionId, approvalId)` answers yes; `refused(problem)` hears why it could not be said. */
  constructor({ decide, refused }) {
    Object.assign(this, { decide, refused });
    this.place = byId('allowed');
    /** Names of tools by session. */
    this.tools = kept();
    this.answered = new Set();
  }

  of(sessionId) {
    return this.tools.get(sessionId) ?? new Set();
  }

  add(sessionId, tool) {
    this.set(sessionId, new Set([...this.of(sessionId), tool]));
  }

  set(sessionId, tools) {
    this.tools.set(sessionId, tools);
    try {
      const all = [...this.tools].map(([id, allowed]) => [id, [...allowed]]);
      sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(all)));
    } catch {
      // Then they hold until the page is loaded again.
    }
  }

  takeBack(sessionId, tool) {
    const left = new Set(this.of(sessionId));
    left.delete(tool);
    this.set(sessionId, left);
    this.draw(sessionId);
  }

  /** Answers what is asked for tools that are allowed, each question once. */
  update(state) {
    const { sessionId } = state;
    const tools = this.of(sessionId);
    if (tools.size) {
      for (const call of openCalls(state)) {
        const { approval } = call;
        if (!approval || approval.decision || !tools.has(call.name) || this.answered.has(approval.id)) continue;
        this.answered.add(approval.id);
        this.decide(sessionId, approval.id).catch((problem) => {
          this.answered.delete(approval.id);
          this.takeBack(sessionId, call.name);
          this.refused(problem);
        });
      }
    }
    this.draw(sessionId);
  }

  draw(sessionId) {
    const tools = [...this.of(sessionId)];
    const key = JSON.stringify([sessionId, tools]);
    if (this.shown === key) return;
    this.shown = key;
    this.place.hidden = tools.length === 0;
    show(this.place, tools.map((tool) => h(
      'li.chip.allowed', {}, icon('check'),
      h('span.chip-text', { title: 'Its questions are answered with yes as long as this tab is open. ✕ takes it back.' }, h('code', {}, exact(tool)), ' runs without asking'),
      button(`Ask again before ${exact(tool)} runs`, { symbol: 'close', onlyIcon: true, onclick: () => { this.takeBack(sessionId, tool); byId('input').focus(); } }),
    )));
  }
}
