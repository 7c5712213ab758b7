// Messages by position: found, put in, changed. Pure.

/** Puts a message in its place; one that is known under that name is replaced and keeps what its calls have come to. */
export function put(messages, message) {
  const at = indexOf(messages, message.id);
  if (at >= 0) {
    const known = messages[at];
    const calls = message.calls.map((call) => merged(call, known.calls.find((old) => old.callId === call.callId)));
    return replaced(messages, at, { ...known, ...message, calls, at: known.at ?? message.at });
  }
  let place = messages.length;
  while (place > 0 && messages[place - 1].seq > message.seq) place -= 1;
  return [...messages.slice(0, place), message, ...messages.slice(place)];
}

function merged(call, known) {
  return known && (known.result || !call.result) ? { ...call, ...known } : { ...known, ...call };
}

/** Changes the call of that name, wherever it is; `null` if there is none. */
export function changeCall(messages, callId, change) {
  for (let at = messages.length - 1; at >= 0; at -= 1) {
    const index = messages[at].calls.findIndex((call) => call.callId === callId);
    if (index < 0) continue;
    const calls = [...messages[at].calls];
    calls[index] = { ...calls[index], ...change(calls[index]) };
    return replaced(messages, at, { ...messages[at], calls });
  }
  return null;
}

/** The place of a message, from the end. */
export function indexOf(messages, id) {
  for (let at = messages.length - 1; at >= 0; at -= 1) if (messages[at].id === id) return at;
  return -1;
}

export function replaced(list, at, item) {
  const next = list.slice();
  next[at] = item;
  return next;
}

/** What the parts of a message are to a reader. */
export function readParts(parts) {
  const read = { text: '', reasoning: '', media: [], calls: [] };
  for (const part of parts ?? []) {
    switch (part.type) {
      case 'text': read.text += part.text; break;
      case 'reasoning': read.reasoning += part.text; break;
      case 'image':
      case 'file': read.media.push(part); break;
      case 'tool-call':
        read.calls.push({ callId: part.call_id, name: part.name, argsText: part.arguments, status: 'pending' });
        break;
      default:
    }
  }
  return read;
}
