// Markdown rendered by the server: asked for in batches, each text once.
import { api } from '../net/api.js';

/** Between two requests at least. */
const PAUSE_MS = 90;
const BATCH = 40;
const BATCH_CHARS = 200_000;
/** Rendered blocks that are kept. */
const KEPT = 3_000;

const known = new Map();
const waiting = new Map();
let timer = null;
let isAway = false;

/** The markup of a text if it is known. */
export function rendered(text) {
  return known.get(text);
}

/** Asks for the markup of a text; `undefined` if it is not to be had. */
export function render(text) {
  if (known.has(text)) return Promise.resolve(known.get(text));
  if (isAway) return Promise.resolve(undefined);
  if (!waiting.has(text)) {
    let resolve;
    const promise = new Promise((done) => { resolve = done; });
    waiting.set(text, { promise, resolve });
    timer ??= setTimeout(flush, PAUSE_MS);
  }
  return waiting.get(text).promise;
}

async function flush() {
  const batch = [];
  let chars = 0;
  for (const [text, { resolve }] of waiting) {
    if (batch.length && (batch.length >= BATCH || chars + text.length > BATCH_CHARS)) break;
    batch.push([text, resolve]);
    chars += text.length;
    waiting.delete(text);
  }
  let html = [];
  try {
    html = listOf(await api.render(batch.map(([text]) => text)));
  } catch (problem) {
    // A server that cannot render will not learn it; the text stands as it was written.
    isAway = [404, 405].includes(problem.status);
  }
  batch.forEach(([text, resolve], at) => {
    if (html[at] !== undefined) keep(text, html[at]);
    resolve(html[at]);
  });
  timer = waiting.size ? setTimeout(flush, PAUSE_MS) : null;
}

function listOf(answer) {
  const html = answer.html ?? answer;
  return Array.isArray(html) ? html : [html];
}

function keep(text, html) {
  known.set(text, html);
  if (known.size > KEPT) known.delete(known.keys().next().value);
}
