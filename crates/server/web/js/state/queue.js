// The messages that wait. Pure.
import { readParts } from './messages.js';

export const handlers = {
  'queue:snapshot': snapshot,
  'message:queued': (state, { id, position }) => (
    state.queue.some((entry) => entry.id === id) ? state : { ...state, queue: [...state.queue, { id, position }] }
  ),
  'message:removed': (state, { id }) => without(state, [id]),
  'message:dequeued': (state, { ids }) => without(state, ids),
  // What it says now is asked for.
  'message:edited': (state) => state,
};

/** The end of what a watcher is told when it arrives: an answer that was not told of again is no more. */
function snapshot(state, { entries }) {
  const queue = entries.map(({ id, position, parts }) => ({ id, position, parts }));
  return { ...state, queue, answer: state.answer?.stale ? null : state.answer };
}

function without(state, ids) {
  if (!state.queue.some((entry) => ids.includes(entry.id))) return state;
  const left = state.queue.filter((entry) => !ids.includes(entry.id));
  return { ...state, queue: left.map((entry, at) => ({ ...entry, position: at + 1 })) };
}

/** What a waiting message says; `null` if it is not known yet. */
export function entryText(entry) {
  return entry.parts ? readParts(entry.parts).text : null;
}
