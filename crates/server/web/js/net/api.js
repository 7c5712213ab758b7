// Requests to the server. What it refuses comes as a `Problem` with its stable code.

export class Problem extends Error {
  /** `more` has what the server says beside, for example `tokens` and `usable`. */
  constructor(status, code, detail, more = {}) {
    super(detail);
    Object.assign(this, { tokens: more.tokens, usable: more.usable, status, code });
  }
}

/** What is said where the server takes nothing new any more. */
const ENDING = 'The server is shutting down: running work may finish, and new work is refused. Start it again with `longhaul`, as before. This page then connects by itself, and what you wrote stays here.';

/** Nobody answered. */
export class Unreachable extends Error {}

/** Whether a refusal is of the line or of a server that ends or begins, not of what was asked. */
export function isPassing(problem) {
  return problem instanceof Unreachable || problem?.status === 503;
}

/** A name for something that is done once, however often it is asked for. */
export function onceKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @returns the answer's JSON */
export async function request(method, path, { body, query, key, signal } = {}) {
  const response = await raw(method, path, { body, query, key, signal });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** The same as a response that was not read. A refusal is thrown. */
export async function raw(method, path, { body, query, key, signal } = {}) {
  const headers = { accept: 'application/json' };
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (key) headers['idempotency-key'] = key;
  const response = await send(withQuery(path, query), {
    method, headers, signal, credentials: 'same-origin', body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Where the server's paths begin: '' or, behind a reverse proxy, the path that it has there, for example '/x'. */
export const ROOT = rootOf(import.meta.url);

/** The part of a page's path that stands before the files of the page. Pure. */
export function rootOf(address) {
  const url = new URL(address);
  const end = url.pathname.lastIndexOf('/web/js/');
  return url.protocol.startsWith('http') && end > 0 ? url.pathname.slice(0, end) : '';
}

export async function send(path, options) {
  try {
    return await fetch(ROOT + path, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Unreachable('The server does not answer.', { cause: error });
  }
}

export async function problemOf(response) {
  const text = await response.text().catch(() => '');
  try {
    const { code, detail, title, ...more } = JSON.parse(text);
    const isEnding = response.status === 503 && code === 'interrupted' && /^The server is shutting down/.test(detail ?? '');
    if (isEnding) return new Problem(503, code, ENDING);
    return new Problem(response.status, code ?? 'unknown', detail ?? title ?? `The server answered ${response.status}.`, more);
  } catch {
    return new Problem(response.status, 'unknown', `The server answered ${response.status}.`);
  }
}

function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** The same request once more if nobody answered: it carries a key, so it is done once. */
export async function insist(method, path, options = {}) {
  const keyed = { key: onceKey(), ...options };
  try {
    return await request(method, path, keyed);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    await new Promise((resolve) => setTimeout(resolve, 600));
    return request(method, path, keyed);
  }
}

const of = (id) => `/api/sessions/${encodeURIComponent(id)}`;

/** The routes that the page uses. */
export const api = {
  sessions: (limit = 200) => request('GET', '/api/sessions', { query: { limit } }),
  session: (id) => request('GET', of(id)),
  create: (wanted) => insist('POST', '/api/sessions', { body: wanted }),
  rename: (id, title) => request('PATCH', of(id), { body: { title } }),
  remove: (id) => request('DELETE', of(id)),
  fork: (id) => insist('POST', `${of(id)}/fork`, { body: {} }),
  orders: (id) => request('GET', `${of(id)}/orders`),
  pin: (id, text) => insist('POST', `${of(id)}/orders`, { body: { text } }),
  unpin: (id, order) => request('DELETE', `${of(id)}/orders/${encodeURIComponent(order)}`),
  messages: (id, query) => request('GET', `${of(id)}/messages`, { query }),
  context: (id) => request('GET', `${of(id)}/context`),
  send: (sessionId, content, agent) => insist('POST', '/api/message', { body: { sessionId, content, agent } }),
  cancel: (id, clearQueue = false) => insist('POST', `${of(id)}/cancel`, { body: { clearQueue } }),
  resume: (id) => insist('POST', `${of(id)}/resume`, { body: {} }),
  retry: (id) => insist('POST', `${of(id)}/retry`, { body: {} }),
  compact: (id, instructions) => insist('POST', `${of(id)}/compact`, { body: instructions ? { instructions } : {} }),
  compactions: (id) => request('GET', `${of(id)}/compactions`),
  undo: (id, edit) => insist('POST', `${of(id)}/compactions/${encodeURIComponent(edit)}/undo`, { body: {} }),
  release: (id, edit) => insist('POST', `${of(id)}/compactions/${encodeURIComponent(edit)}/release`, { body: {} }),
  recall: (id, handle, range) => request('GET', `${of(id)}/recall`, { query: { handle, range } }),
  exported: (id, format) => raw('GET', `${of(id)}/export`, { query: { format } }),
  blobPath: (id, hash) => `${ROOT}${of(id)}/blobs/${encodeURIComponent(hash)}`,
  queue: (sessionId) => request('GET', '/api/message/queue', { query: { sessionId } }),
  editQueued: (sessionId, id, content) => request('PATCH', `/api/message/queue/${encodeURIComponent(id)}`, { query: { sessionId }, body: { content } }),
  removeQueued: (sessionId, id) => request('DELETE', `/api/message/queue/${encodeURIComponent(id)}`, { query: { sessionId } }),
  approvals: (sessionId) => request('GET', '/api/approvals', { query: { sessionId } }),
  decide: (sessionId, id, decision, reason) => insist('POST', `/api/approvals/${encodeURIComponent(id)}`, { body: { sessionId, decision, ...(reason ? { reason } : {}) } }),
  render: (texts) => request('POST', '/api/render', { body: { texts } }),
  login: (token) => request('POST', '/api/login', { body: { token } }),
  models: () => request('GET', '/api/models'),
  agents: () => request('GET', '/api/agents'),
  switchModel: (id, choice) => insist('POST', `${of(id)}/llm`, { body: choice }),
  settings: () => request('GET', '/api/settings'),
  changeSettings: (changes) => request('PUT', '/api/settings', { body: changes }),
  search: (q) => request('GET', '/api/search', { query: { q } }),
  eventsPath: (id, after) => `${of(id)}/events?after=${after}`,
};
