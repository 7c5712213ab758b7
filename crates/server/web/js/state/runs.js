// Runs: begun, retried, ended; and what happened to the connection. Pure.
import { failureOf } from '../text/failures.js';
import { replaced } from './messages.js';

export const handlers = {
  'run:started': (state, { runId, at }) => (
    state.run?.id === runId ? state : { ...state, run: { id: runId, since: at, stepSince: at, steps: 0 }, parked: null, retry: null, fault: null }
  ),
  'run:complete': complete,
  'run:waiting': (state, wait) => ({ ...state, answer: null, writing: [], retry: retryOf(wait) }),
  'session:parked': (state, { reason }) => ({ ...state, parked: reason, run: null, answer: null, writing: [] }),
  'llm:error': failed,
  'llm:switched': switched,
  'llm:unsupported-input': (state, { errors, at }) => notice(state, {
    seq: state.seq + 0.5, tone: 'attention', text: (errors ?? []).join(' '), key: `unsupported-${at}`,
  }),
  'stream:gap': (state) => ({ ...state, gap: true }),
  'page:connected': (state) => (state.answer ? { ...state, answer: { ...state.answer, stale: true } } : state),
};

/** Told again after a break it is no news: what was fetched meanwhile knows the model of now. */
function switched(state, { seq, newConfig }) {
  const told = notice(state, { seq, tone: 'quiet', text: `The model is now ${newConfig?.model ?? 'another one'}. The whole history stays.` });
  if (!newConfig || !state.session || !(seq > state.seq)) return told;
  return { ...told, session: { ...state.session, model: newConfig } };
}

/** Why runs end, in words, and what goes on from there; one that ended by its answer says nothing. */
const ENDS = {
  'max-steps': ['attention', 'The step limit was reached.', 'Go on'],
  cancelled: ['quiet', 'Stopped. What was said is kept.'],
  timeout: ['attention', 'The time limit was reached. Send a message to go on.'],
  'loop-detected': ['attention', 'The agent repeated itself and was stopped. Send a message that says what to do instead.'],
  length: ['attention', 'The answer reached the output limit. Send a message to go on.'],
  error: ['failure', '', 'Try again'],
};

function complete(state, { seq, runId, finishReason, error }) {
  const ended = { ...state, run: null, answer: null, writing: [], retry: null, compacting: null, fault: null };
  return withEnd(ended, { seq, runId, finishReason, error: error ?? (finishReason === 'error' ? state.fault : null) });
}

/** Adds the notice of a run's end, as an event or a page tells it; none if the run ended with its answer. */
export function withEnd(state, { seq, runId, finishReason, error }) {
  if (!ENDS[finishReason]) return state;
  const [tone, text, goOn] = ENDS[finishReason];
  const said = tone === 'failure' ? failureOf(error) : { text, detail: error?.message };
  const isStop = finishReason === 'cancelled';
  return notice(state, { seq, key: `end-${runId}`, tone, goOn, ...said, code: error?.code, isEnd: true, isStop });
}

/** A wait for the model's server, as the session and its events tell it. */
export function retryOf({ reason, attempt, nextAttemptAt, lastError }) {
  return { reason, attempt, until: nextAttemptAt, error: lastError.message, code: lastError.code };
}

function failed(state, { seq, error, code, context, recoverable, at }) {
  // What is stored of a failed step the end of its run says, with what was kept.
  if (seq !== undefined) {
    const told = withReason(state, context?.stepId, { code, message: error });
    return recoverable ? told : { ...told, fault: { message: error, code } };
  }
  return notice(state, { seq: state.seq + 0.5, key: `error-${at}`, tone: 'failure', text: error, code });
}

/** An answer that was cut off by a failure knows by which. */
function withReason(state, stepId, error) {
  const id = `m-${stepId}`;
  const at = state.messages.findLastIndex((message) => message.id === id || message.pieces?.includes(id));
  return at < 0 ? state : { ...state, messages: replaced(state.messages, at, { ...state.messages[at], error }) };
}

/** Adds a notice, once. */
export function notice(state, given) {
  const key = given.key ?? `notice-${given.seq}`;
  if (state.notices.some((other) => other.key === key)) return state;
  const at = state.notices.findLastIndex((other) => other.seq <= given.seq) + 1;
  return { ...state, notices: [...state.notices.slice(0, at), { ...given, key }, ...state.notices.slice(at)] };
}
