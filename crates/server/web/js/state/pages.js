// What was fetched: pages of messages, the session, its compactions, its meter. Pure.
import { movedBetween } from '../meter/trigger.js';
import { withStep } from './answer.js';
import { withEdit } from './context.js';
import { put, readParts } from './messages.js';
import { retryOf, withEnd } from './runs.js';
import { changeCall } from './messages.js';
import { asked } from './tools.js';

export const handlers = {
  'page:messages': messages,
  'page:session': session,
  'page:compactions': (state, { compactions }) => compactions.reduce(withEdit, state),
  'page:report': (state, { report }) => ({ ...state, report, moved: movedBetween(state.report, report) ?? state.moved, usage: {
    total: report.total, window: report.window, percent: report.percent, outputReserve: report.outputReserve,
    freeSpace: report.freeSpace, expectedError: report.expectedError, estimated: report.basis.newMessagesEstimate,
    compactionCount: report.compactionCount,
  } }),
  'page:approvals': approvals,
};

/** Messages of a page, with the ends of runs. `isOlder`: it lies before what is known, and says whether there is more. */
function messages(state, { messages: page, runEnds, hasMore, before, isOlder }) {
  const made = [];
  const results = [];
  const summaries = { ...state.summaries };
  let { steps } = state;
  for (const item of page) {
    if (item.isSummary) {
      summaries[item.id] = summaries[item.id]?.seqs === item.seq ? summaries[item.id] : { seqs: item.seq, parts: [] };
      const known = summaries[item.id].parts;
      const text = readParts(item.parts).text;
      if (!known.includes(text)) summaries[item.id] = { seqs: item.seq, parts: [...known, text] };
    } else if (item.role === 'tool') {
      results.push(item);
    } else {
      made.push(fromItem(item));
      steps = withStep(steps, item.seq, item.id, item.tokenUsage);
    }
  }
  let next = { ...state, summaries, steps, messages: joined(state.messages, made) };
  if (isOlder) next.older = { more: hasMore, before: before ?? null };
  next = withResults(next, made, results);
  return (runEnds ?? []).reduce(withEnd, next);
}

function fromItem(item) {
  const read = readParts(item.parts);
  const kind = item.role === 'assistant' ? 'model' : item.isNote ? 'note' : 'typed';
  const status = Object.fromEntries((item.toolCalls ?? []).map((call) => [call.callId, call.status]));
  read.calls.forEach((call) => { call.status = status[call.callId] ?? 'pending'; });
  const message = { id: item.id, seq: item.seq, at: item.at, kind, ...read };
  if (item.model) message.model = item.model;
  if (item.tokenUsage) message.usage = item.tokenUsage;
  if (kind !== 'model') return message;
  // Written also where there is none: an answer that was continued since is whole.
  const { interrupted, error, continues } = item;
  return { ...message, paused: interrupted === 'paused', interrupted, error, ...(continues ? { continues } : {}) };
}

/** A page that lies wholly before or behind what is known is put there at once. */
function joined(known, made) {
  if (!made.length) return known;
  if (!known.length) return made;
  if (made.at(-1).seq < known[0].seq) return [...made, ...known];
  if (made[0].seq > known.at(-1).seq) return [...known, ...made];
  return made.reduce(put, known);
}

/** Results go to their calls, in one pass; those whose call is on an older page wait for it. */
function withResults(state, made, results) {
  const byCall = { ...state.orphans };
  for (const item of results) byCall[item.callId] = endedBy(item);
  const waiting = new Set(Object.keys(byCall));
  if (!waiting.size) return state;
  const begun = new Set(made.map((message) => message.id));
  let messages = state.messages.map((message) => {
    if (!begun.has(message.id) || !message.calls.some((call) => waiting.has(call.callId))) return message;
    const calls = message.calls.map((call) => (waiting.delete(call.callId) ? { ...call, ...byCall[call.callId] } : call));
    return { ...message, calls };
  });
  for (const callId of waiting) {
    const changed = changeCall(messages, callId, () => byCall[callId]);
    if (changed) {
      messages = changed;
      waiting.delete(callId);
    }
  }
  return { ...state, messages, orphans: Object.fromEntries([...waiting].map((callId) => [callId, byCall[callId]])) };
}

function endedBy(item) {
  const part = item.parts.find((each) => each.type === 'tool-result');
  return {
    status: item.status, endedAt: item.at, output: undefined, ...(item.startedAt ? { startedAt: item.startedAt } : {}),
    result: { seq: item.seq, content: part?.content ?? [], truncated: part?.truncated ?? null },
  };
}

function session(state, { session: known, at }) {
  const isAtRest = ['idle', 'parked'].includes(known.status);
  let next = { ...state, session: { ...state.session, ...known }, parked: known.parked ?? null };
  if (isAtRest && known.lastSeq >= state.seq) {
    next = { ...next, run: null, answer: null, writing: [], retry: null, compacting: null };
  } else if (!isAtRest && !state.run) {
    next.run = { since: at, stepSince: at, steps: 0, joined: true };
  }
  if (known.waiting) next.retry = retryOf(known.waiting);
  return next;
}

function approvals(state, { approvals: waiting }) {
  let { messages } = state;
  for (const { callId, approvalId } of waiting) {
    messages = changeCall(messages, callId, (call) => (call.result ? {} : { approval: asked(call, approvalId), status: 'pending' })) ?? messages;
  }
  return { ...state, messages };
}
