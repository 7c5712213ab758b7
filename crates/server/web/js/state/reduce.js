// One event in, the next state out: the events of the stream and the pages that were fetched. Pure; the time of an
// event is its `at`.
import * as answer from './answer.js';
import * as context from './context.js';
import * as pages from './pages.js';
import * as queue from './queue.js';
import * as runs from './runs.js';
import * as tools from './tools.js';

const HANDLERS = { ...answer.handlers, ...context.handlers, ...pages.handlers, ...queue.handlers, ...runs.handlers, ...tools.handlers };

/** @returns the next state; the same one if the event changes nothing */
export function reduce(state, event) {
  const handler = Object.hasOwn(HANDLERS, event.name) ? HANDLERS[event.name] : null;
  const next = handler ? handler(state, event) : state;
  return event.seq > next.seq ? { ...next, seq: event.seq } : next;
}
