// The window: the meter, what was compacted, pruned, brought back. Pure.
import { replaced } from './messages.js';

/** Estimates remembered. */
const ESTIMATES = 50;

export const handlers = {
  'context:usage': usage,
  'context:estimate': estimate,
  'context:compacting': (state, { strategy, reason, trigger, at }) => ({ ...state, compacting: { strategy, reason, trigger, since: at } }),
  'context:compressed': compressed,
  'context:pruned': pruned,
  'context:restored': (state, { compactionId }) => ({
    ...state, edits: state.edits.map((edit) => (edit.id === compactionId ? { ...edit, active: false } : edit)),
  }),
  'context:compact-failed': (state, { reason, code, strategy }) => ({
    ...state, compacting: null, compactFailed: { reason, code, strategy },
  }),
};

function usage(state, event) {
  const { total, window, percent, outputReserve, freeSpace, expectedError, estimated, compactionCount } = event;
  return { ...state, usage: { total, window, percent, outputReserve, freeSpace, expectedError, estimated, compactionCount } };
}

function estimate(state, { seq, estimated, actual, errorPercent }) {
  if (state.estimates.some((other) => other.seq === seq)) return state;
  const estimates = [...state.estimates, { seq, estimated, actual, errorPercent }].sort((a, b) => a.seq - b.seq);
  return { ...state, estimates: estimates.slice(-ESTIMATES) };
}

function compressed(state, event) {
  const { compactionId, seq, strategy, reason, trigger, survival, costNote, summary } = event;
  const edit = {
    id: compactionId, seq, kind: 'compaction', strategy, reason, trigger, survival, why: costNote, summary, active: true,
    originalTokens: event.originalTokens, compressedTokens: event.compressedTokens,
    originalMessages: event.originalMessages, compressedMessages: event.compressedMessages,
  };
  return { ...withEdit(state, edit), compacting: null };
}

function pruned(state, event) {
  const { compactionId, seq, prunedCount } = event;
  const edit = {
    id: compactionId, seq, kind: 'prune', prunedCount, why: event.costNote, active: true,
    originalTokens: event.originalTokens, compressedTokens: event.compressedTokens,
  };
  return withEdit(state, edit);
}

/** Adds an edit, or what is newly known of it. */
export function withEdit(state, edit) {
  const at = state.edits.findIndex((other) => other.id === edit.id);
  if (at >= 0) {
    const known = state.edits[at];
    const next = { ...known, ...edit, survival: edit.survival ?? known.survival };
    return JSON.stringify(next) === JSON.stringify(known) ? state : { ...state, edits: replaced(state.edits, at, next) };
  }
  return { ...state, edits: [...state.edits, edit].sort((a, b) => a.seq - b.seq) };
}
