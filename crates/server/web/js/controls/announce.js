// What is said to those who do not see it: whole news, one at a time, never the stream itself.
import { byId } from '../dom.js';

let timer = null;
const waiting = [];

export function announce(text) {
  if (waiting.at(-1) === text) return;
  waiting.push(text);
  timer ??= setTimeout(say, 250);
}

function say() {
  const text = waiting.splice(0).slice(-2).join(' ');
  byId('said').textContent = text;
  timer = null;
}
