// Runs: begun, retried, ended; and what happened to the connection. Pure.

export const handlers = {
  'run:started': (state, { runId, at }) => (
    state.run?.id === runId ? state : { ...state, run: { id: runId, since: at, stepSince: at, steps: 0 }, parked: null, retry: null }
  ),
  'run:complete': complete,
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

/** Why runs end, in words; one that ended by its answer says nothing. */
const ENDS = {
  'max-steps': ['attention', 'The step limit was reached. Send a message to go on.'],
  cancelled: ['quiet', 'Stopped. What was said is kept.'],
  timeout: ['attention', 'The time limit was reached. Send a message to go on.'],
  'loop-detected': ['attention', 'The agent repeated itself and was stopped.'],
  length: ['attention', 'The answer reached the output limit.'],
  error: ['failure', 'The run failed. Everything up to here is kept.'],
};

function complete(state, { seq, runId, finishReason, error }) {
  const notices = state.notices.filter((other) => other.key !== 'last-end');
  const ended = { ...state, notices, run: null, answer: null, writing: [], retry: null, compacting: null };
  const said = end(finishReason, error);
  return said ? notice(ended, { seq, key: `end-${runId}`, ...said }) : ended;
}

/** The notice of a run's end. */
export function end(finishReason, error) {
  if (!ENDS[finishReason]) return null;
  const [tone, text] = ENDS[finishReason];
  return { tone, text, detail: error?.message, code: error?.code };
}

function failed(state, { seq, error, code, context, recoverable, at }) {
  const after = context?.retryAfterMs;
  if (after !== undefined) {
    return { ...state, answer: null, retry: { error, code, attempt: context.attempt, until: at + after } };
  }
  if (recoverable && seq !== undefined) return state;
  // The end of the run says the same once more, with what was kept.
  if (seq !== undefined && state.run) return state;
  return notice(state, { seq: seq ?? state.seq + 0.5, key: `error-${seq ?? at}`, tone: 'failure', text: error, code });
}

/** Adds a notice, once. */
export function notice(state, given) {
  const key = given.key ?? `notice-${given.seq}`;
  if (state.notices.some((other) => other.key === key)) return state;
  const at = state.notices.findLastIndex((other) => other.seq <= given.seq) + 1;
  return { ...state, notices: [...state.notices.slice(0, at), { ...given, key }, ...state.notices.slice(at)] };
}
