// What is known of one session. Plain values; nothing in them is ever changed in place.

/**
 * @typedef {{type: string, text?: string}} Part
 * @typedef {{callId: string, name: string, argsText: string, status: string, startedAt?: number, endedAt?: number,
 *   output?: string, outputEnd?: number, outputLost?: boolean, result?: Result, approval?: Approval}} Call
 * @typedef {{seq: number, content: Part[], truncated: Object|null}} Result
 * @typedef {{id: string, decision?: 'allow'|'deny'}} Approval
 * @typedef {{id: string, seq: number, at?: number, kind: 'typed'|'note'|'model', text: string, reasoning: string,
 *   media: Part[], calls: Call[], model?: Object, usage?: Object, interrupted?: string, paused?: boolean}} Message
 */

/** The state of a session of which nothing is known yet. */
export function emptyState(sessionId) {
  return {
    sessionId,
    session: null,
    /** @type {Message[]} by position */
    messages: [],
    /** Whether there is more before them, and from where. */
    older: { more: false, before: null },
    /** Results whose call is on an older page, by call. */
    orphans: {},
    /** The answer in flight: `{messageId, stepId, text, reasoning, begunAt, length, reasoningLength}`. */
    answer: null,
    /** Arguments that the model is writing: `{stepId, index, name, length}`. */
    writing: [],
    /** `{id, position, parts?}` */
    queue: [],
    /** Compactions and prunes, oldest first. */
    edits: [],
    /** What stands for what was left out: parts by edit. */
    summaries: {},
    /** `{seq, text, tone}` between messages. */
    notices: [],
    /** The meter: the short form of each step, and the whole report if it was asked for. */
    usage: null,
    report: null,
    /** Where the trigger moved last, and why: `{from, to, why}`. */
    moved: null,
    /** `{seq, messageId, input, cached, output}` by step. */
    steps: [],
    /** `{seq, estimated, actual, errorPercent}`, newest last. */
    estimates: [],
    /** `{strategy, reason, since}` */
    compacting: null,
    /** `{error, attempt, until}` */
    retry: null,
    /** `{message, code}` of the step that failed, until its run ends. */
    fault: null,
    /** `{id?, since?, steps}` */
    run: null,
    parked: null,
    /** The position of the newest stored event that is known. */
    seq: 0,
    /** Whether something was missed that only a new look at the session can mend. */
    gap: false,
  };
}

/** What the agent does now: one of `idle parked waiting tools retrying compacting writing thinking`. */
export function activity(state) {
  const calls = openCalls(state);
  const asked = calls.filter((call) => call.approval && !call.approval.decision);
  if (asked.length) return { kind: 'waiting', calls: asked };
  if (!state.run && state.compacting && state.session?.status === 'compacting') return { kind: 'compacting', since: state.compacting.since };
  if (!state.run) return state.parked ? { kind: 'parked', reason: state.parked } : { kind: 'idle' };
  const running = calls.filter((call) => call.status === 'running');
  if (running.length) return { kind: 'tools', calls: running, since: running[0].startedAt };
  if (state.retry) return { kind: 'retrying', ...state.retry };
  if (state.answer) return { kind: 'writing', since: state.answer.begunAt, thinks: !state.answer.text };
  if (state.writing.length) return { kind: 'writing', call: state.writing.at(-1) };
  if (state.compacting) return { kind: 'compacting', since: state.compacting.since };
  return { kind: 'thinking', since: state.run.stepSince ?? state.run.since };
}

/** Whether a message sent now would wait. */
export function isBusy(state) {
  return !['idle', 'parked'].includes(activity(state).kind);
}

/** Whether messages wait and nothing takes them: after a stop they go with the next message, or when they are told to. */
export function isHeld(state) {
  return state.queue.length > 0 && !isBusy(state);
}

/** Calls of the newest answers that have not ended. */
export function openCalls(state) {
  const open = [];
  for (let at = state.messages.length - 1; at >= 0; at -= 1) {
    const message = state.messages[at];
    if (message.kind === 'typed') break;
    open.unshift(...message.calls.filter((call) => ['pending', 'running'].includes(call.status)));
  }
  return state.run || open.some((call) => call.approval) ? open : [];
}
