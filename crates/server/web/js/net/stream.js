// The stream of a session's events: read by fetch, gone on with from the last position, tried again with growing
// pauses. A client that leaves cancels nothing, so a lost connection costs nothing but time.
import { api, problemOf, send } from './api.js';
import { backoff, sseParser } from './sse.js';

/** The server says something at least every 15 s. */
const SILENCE_MS = 40_000;

/**
 * Watches a session until `stop()`.
 *
 * `onEvents(list)` gets what came together; `onState({state, attempt?, retryAt?, problem?})` hears `open`, `lost`
 * and `refused`.
 */
export function watch(sessionId, after, { onEvents, onState, now = Date.now }) {
  let position = after;
  /** The newest `id`: a position, or a part of one, as `3.1`. It goes before the position. */
  let place = null;
  let attempt = 0;
  let stopped = false;
  let wake = () => {};
  let controller = null;

  async function connect() {
    controller = new AbortController();
    const quiet = watchdog(controller);
    try {
      const headers = { accept: 'text/event-stream', ...(place !== null && { 'last-event-id': place }) };
      const options = { headers, signal: controller.signal, credentials: 'same-origin' };
      const response = await send(api.eventsPath(sessionId, position), options);
      if (!response.ok) throw await problemOf(response);
      attempt = 0;
      onState({ state: 'open' });
      await read(response.body, quiet);
    } finally {
      quiet.stop();
    }
  }

  async function read(body, quiet) {
    const parse = sseParser();
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || stopped) return;
      quiet.heard();
      const at = now();
      const events = [];
      for (const frame of parse(value)) {
        if (frame.data) events.push({ ...JSON.parse(frame.data), at });
        if (frame.id === undefined) continue;
        place = frame.id;
        if (!place.includes('.')) position = Number(place);
      }
      if (events.length) tell(events);
    }
  }

  /** A fault of ours in what is made of events is no fault of the line. */
  function tell(events) {
    try {
      onEvents(events);
    } catch (error) {
      reportError(error);
    }
  }

  async function run() {
    while (!stopped) {
      let problem = null;
      try {
        await connect();
      } catch (error) {
        problem = error;
      }
      if (stopped) return;
      if ([401, 403, 404].includes(problem?.status)) {
        onState({ state: 'refused', problem });
        return;
      }
      const pause = backoff(attempt, Math.random());
      attempt += 1;
      onState({ state: 'lost', attempt, retryAt: now() + pause, problem });
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, pause);
      });
    }
  }

  run();
  return {
    stop: () => { stopped = true; controller?.abort(); wake(); },
    retry: () => wake(),
  };
}

/** Ends a connection on which nothing is heard any more. */
function watchdog(controller) {
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), SILENCE_MS);
  };
  heard();
  return { heard, stop: () => clearTimeout(timer) };
}
