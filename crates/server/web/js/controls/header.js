// The line above the conversation: title, model, steps, tokens or cost; and what can be done with the session.
import { byId, setText } from '../dom.js';
import { count, dollars, plural, tokens } from '../text/format.js';
import { newestUndo } from '../state/offers.js';
import { whyNot } from '../text/edits.js';
import { titleOf } from './sessions.js';

export class Header {
  constructor({ rename, command }) {
    this.title = byId('title');
    this.facts = byId('facts');
    this.model = byId('model');
    this.modelName = byId('model-name');
    this.undo = byId('session-menu').querySelector('[data-command="undo"]');
    this.title.addEventListener('click', rename);
    for (const each of byId('session-menu').querySelectorAll('[data-command]')) {
      each.addEventListener('click', () => {
        byId('session-menu').hidePopover?.();
        command(each.dataset.command);
      });
    }
  }

  /** `fresh`: the model of a session that is not begun yet. */
  update(state, listed, fresh = null) {
    const session = state.session ?? listed;
    const title = session ? titleOf(session) : 'New session';
    setText(this.title, title);
    this.title.disabled = !state.session;
    byId('session-menu-open').hidden = !state.session;
    const model = state.session ? modelOf(state, session) : fresh;
    this.offerUndo(state);
    this.model.hidden = !model;
    setText(this.modelName, model ?? '');
    this.model.setAttribute('aria-label', `Model ${model}. Change it`);
    setText(this.facts, state.session ? factsOf(state, session) : '');
    this.facts.title = state.session ? spentOn(state, session) : '';
    const waits = (state.messages.at(-1)?.calls ?? []).some((call) => call.approval && !call.approval.decision && !call.result);
    document.title = `${waits ? '● ' : ''}${title} · Longhaul`;
  }

  offerUndo(state) {
    const newest = state.session ? newestUndo(state) : null;
    const why = newest ? whyNot(newest.refused)?.[1] : 'Nothing was compacted.';
    this.undo.disabled = Boolean(why);
    this.undo.title = why ?? '';
  }
}

/** The model that answers next. Pure. */
export function modelOf(state, session) {
  return session.model?.model ?? state.messages.findLast((message) => message.model)?.model?.model ?? null;
}

/** `3 steps · $0.14`, or tokens where no price is known. Pure. */
export function factsOf(state, session) {
  const usage = state.report?.tokenUsage ?? session.tokenUsage;
  const cost = session.costUsd ?? state.report?.costUsd;
  const spent = typeof cost === 'number' ? dollars(cost) : usage?.totalTokens ? `${tokens(usage.totalTokens)} tokens` : null;
  const steps = state.older.more ? null : state.steps.length ? plural(state.steps.length, 'step') : null;
  return [steps, spent].filter(Boolean).join(' · ');
}

/** What the cost is made of, for who asks. Pure. */
export function spentOn(state, session) {
  const usage = state.report?.tokenUsage ?? session.tokenUsage;
  if (!usage?.totalTokens) return '';
  const cost = session.costUsd ?? state.report?.costUsd;
  const price = typeof cost === 'number' ? `${dollars(cost)} at list prices: ` : 'No price of this model is known. ';
  return `${price}${count(usage.inputTokens)} tokens read, ${count(usage.cacheReadTokens ?? 0)} of them from the cache; ${count(usage.outputTokens)} written.`;
}
