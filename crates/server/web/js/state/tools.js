// Tool calls: started, asked about, their output, their end. Pure.
import { changeCall } from './messages.js';

/** Live output that is kept; the whole of it comes with the result. */
const OUTPUT_CHARS = 100_000;

export const handlers = {
  'llm:tool-call': (state, { callId, toolName, argsText }) => change(state, callId, () => ({ name: toolName, argsText })),
  'tool:started': (state, { callId, at }) => change(state, callId, (call) => (
    call.result ? {} : { status: 'running', startedAt: call.startedAt ?? at }
  )),
  'tool:output': output,
  'llm:tool-result': (state, event) => result(state, event.callId, event),
  'tool:approval-request': (state, { callId, approvalId }) => change(state, callId, (call) => (
    call.approval?.decision || call.result ? {} : { approval: asked(call, approvalId) }
  )),
  'tool:approval-response': approvalResponse,
};

/** A question that is told again is the same one: somebody may be writing the answer. */
export function asked(call, id) {
  return call.approval?.id === id ? call.approval : { id };
}

function change(state, callId, make) {
  const messages = changeCall(state.messages, callId, make);
  return messages ? { ...state, messages } : state;
}

function output(state, { callId, text, offset, at }) {
  return change(state, callId, (call) => {
    if (call.result) return {};
    const known = call.output ?? '';
    const end = call.outputEnd ?? 0;
    if (offset < end) return {};
    const all = known + text;
    const lost = call.outputLost || offset > end || all.length > OUTPUT_CHARS;
    return {
      status: 'running', startedAt: call.startedAt ?? at,
      output: all.length > OUTPUT_CHARS ? all.slice(-OUTPUT_CHARS) : all,
      outputEnd: offset + text.length, outputLost: lost,
    };
  });
}

/** A result, from the stream or from a page. */
export function result(state, callId, { seq, status, sanitized, truncated, omittedChars, totalChars, at }) {
  const make = (call) => ({
    status, endedAt: at, output: undefined,
    result: { seq, content: sanitized, truncated: truncated ? { omittedChars, totalChars } : null },
    ...(call.approval && !call.approval.decision ? { approval: undefined } : {}),
  });
  const next = change(state, callId, make);
  if (next === state) return { ...state, orphans: { ...state.orphans, [callId]: make({}) } };
  return { ...next, run: next.run && at ? { ...next.run, stepSince: at } : next.run };
}

function approvalResponse(state, { approvalId, decision, at }) {
  const isMeant = (call) => call.approval?.id === approvalId;
  const message = state.messages.findLast((each) => each.calls.some(isMeant));
  if (!message) return state;
  const { callId } = message.calls.find(isMeant);
  return change(state, callId, (call) => ({ approval: { ...call.approval, decision, at } }));
}
