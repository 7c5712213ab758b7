// Runs: begun, retried, ended; and what happened to the connection. Pure.
import { failureOf } from '../text/failures.js';
import { indexOf, replaced } from './messages.js';

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
  'loop-detected': ['attention', 'The agent repeated itself and was stopped.'],
  length: ['attention', 'The answer reached the output limit.'],
  error: ['failure', '', 'Try again'],
};

function complete(state, { seq, runId, finishReason, error }) {
  const notices = state.notices.filter((other) => other.key !== 'last-end');
  const ended = { ...state, notices, run: null, answer: null, writing: [], retry: null, compacting: null, fault: null };
  const said = end(finishReason, error ?? (finishReason === 'error' ? state.fault : null));
  return said ? notice(ended, { seq, key: `end-${runId}`, ...said }) : ended;
}

/** The notice of a run's end. */
export function end(finishReason, error) {
  if (!ENDS[finishReason]) return null;
  const [tone, text, goOn] = ENDS[finishReason];
  const said = tone === 'failure' ? failureOf(error) : { text, detail: error?.message };
  return { tone, goOn, ...said, code: error?.code, isStop: finishReason === 'cancelled' };
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
  const at = indexOf(state.messages, `m-${stepId}`);
  return at < 0 ? state : { ...state, messages: replaced(state.messages, at, { ...state.messages[at], error }) };
}

/** Adds a notice, once. */
export function notice(state, given) {
  const key = given.key ?? `notice-${given.seq}`;
  if (state.notices.some((other) => other.key === key)) return state;
  const at = state.notices.findLastIndex((other) => other.seq <= given.seq) + 1;
  return { ...state, notices: [...state.notices.slice(0, at), { ...given, key }, ...state.notices.slice(at)] };
}
