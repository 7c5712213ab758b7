// The line above the conversation: title, model, steps, tokens or cost; and what can be done with the session.
import { byId, setText } from '../dom.js';
import { dollars, plural, tokens } from '../text/format.js';
import { titleOf } from './sessions.js';

export class Header {
  constructor({ rename, command }) {
    this.title = byId('title');
    this.facts = byId('facts');
    this.title.addEventListener('click', rename);
    for (const each of byId('session-menu').querySelectorAll('[data-command]')) {
      each.addEventListener('click', () => {
        byId('session-menu').hidePopover?.();
        command(each.dataset.command);
      });
    }
  }

  update(state, listed) {
    const session = state.session ?? listed;
    const title = session ? titleOf(session) : 'New session';
    setText(this.title, title);
    this.title.disabled = !session;
    byId('session-menu-open').hidden = !session;
    setText(this.facts, session ? factsOf(state, session) : '');
    const waits = (state.messages.at(-1)?.calls ?? []).some((call) => call.approval && !call.approval.decision && !call.result);
    document.title = `${waits ? '● ' : ''}${title} · Longhaul`;
  }
}

/** `qwen3-30b · 3 steps · $0.14`, or tokens where no price is known. Pure. */
export function factsOf(state, session) {
  const model = state.messages.findLast((message) => message.model)?.model?.model ?? session.model?.model;
  const usage = state.report?.tokenUsage ?? session.tokenUsage;
  const cost = session.costUsd ?? state.report?.costUsd;
  const spent = typeof cost === 'number' ? dollars(cost) : usage?.totalTokens ? `${tokens(usage.totalTokens)} tokens` : null;
  const steps = state.older.more ? null : state.steps.length ? plural(state.steps.length, 'step') : null;
  return [model, steps, spent].filter(Boolean).join(' · ');
}
