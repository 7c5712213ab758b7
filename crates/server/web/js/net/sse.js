// Server-sent events from text in pieces. Pure.

/**
 * A parser: give it text as it comes, it gives whole events `{id?, event, data}`. A comment (a heartbeat) gives
 * nothing.
 */
export function sseParser() {
  let rest = '';
  return (text) => {
    rest += text;
    const frames = rest.split('\n\n');
    rest = frames.pop();
    return frames.map(frameOf).filter(Boolean);
  };
}

function frameOf(frame) {
  const event = { event: 'message', data: '' };
  let hasData = false;
  for (const line of frame.split('\n')) {
    const colon = line.indexOf(':');
    if (colon < 1) continue;
    const value = line.slice(colon + 1).replace(/^ /, '').replace(/\r$/, '');
    switch (line.slice(0, colon)) {
      case 'id': event.id = value; break;
      case 'event': event.event = value; break;
      case 'data':
        event.data = hasData ? `${event.data}\n${value}` : value;
        hasData = true;
        break;
      default:
    }
  }
  return hasData || event.id !== undefined ? event : null;
}

/** How long to wait before the next try: 0.5 s, doubled up to 15 s, a little spread so that not all come at once. */
export function backoff(attempt, random) {
  const base = Math.min(15_000, 500 * 2 ** Math.min(attempt, 10));
  return Math.round(base * (0.8 + 0.4 * random));
}
