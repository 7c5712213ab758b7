import { Approvals } from "./approvals.js";
import { answer, type AskOptions } from "./ask.js";
import { Blobs } from "./blobs.js";
import type { CallOptions, WorkOptions } from "./call.js";
import type { LonghaulEvent, RunComplete } from "./event.js";
import { type Call, newKey, type RetryPolicy, Transport } from "./http.js";
import { Waiting } from "./queue.js";
import { Sessions } from "./sessions.js";
import { type EventsOptions, stream, type StreamPolicy } from "./stream.js";
import type {
  Cancelled,
  Compacted,
  Compaction,
  CompactionPreview,
  CompactRequest,
  Content,
  ContextReport,
  Message,
  MessagesPage,
  OrderChanged,
  OrderPinned,
  PinOrder,
  Recalled,
  RecallRequest,
  Released,
  Resumed,
  Retried,
  SendMessage,
  Sent,
  StandingOrder,
  Undone,
} from "./types.js";

export interface LonghaulOptions {
  /** For example `http://127.0.0.1:4400`. */
  baseUrl: string | URL;
  /** What `<data-dir>/token` holds. Without it the browser's cookie for the server has to do. */
  token?: string;
  /** Another `fetch` than the platform's. */
  fetch?: typeof fetch;
  /** How requests are repeated. */
  retry?: Partial<RetryPolicy>;
  /** How streams are opened again. */
  stream?: Partial<StreamPolicy>;
}

export interface PageOptions extends CallOptions {
  after?: number;
  before?: number;
  /** The most messages of the page: 100 by default, at most 500. */
  limit?: number;
}

export interface MessagesOptions extends CallOptions {
  /** What comes after this position, oldest first. */
  after?: number;
  /** Or what comes before this position, newest first. `Infinity`: from the newest on. */
  before?: number;
  /** Messages in one request: 100 unless it is said, at most 500. */
  pageSize?: number;
}

const RETRY: RetryPolicy = { attempts: 4, baseMs: 250, maxMs: 8_000, maxRetryAfterMs: 30_000 };
const STREAM: StreamPolicy = { baseMs: 500, maxMs: 15_000, heartbeatTimeoutMs: 45_000 };

/** A Longhaul server. */
export class Longhaul {
  readonly sessions: Sessions;
  readonly queue: Waiting;
  readonly blobs: Blobs;
  readonly approvals: Approvals;
  readonly #transport: Transport;
  readonly #stream: StreamPolicy;

  constructor(options: LonghaulOptions) {
    const { baseUrl, token, fetch } = options;
    this.#transport = new Transport({ baseUrl, token, fetch, retry: { ...RETRY, ...options.retry } });
    this.#stream = { ...STREAM, ...options.stream };
    this.sessions = new Sessions(this.#transport);
    this.queue = new Waiting(this.#transport);
    this.blobs = new Blobs(this.#transport);
    this.approvals = new Approvals(this.#transport);
  }

  /** Sends a message. A busy session takes it at its next step: until then it waits at `position`. */
  sendMessage(message: SendMessage, options: WorkOptions = {}): Promise<Sent> {
    const { signal, idempotencyKey = newKey() } = options;
    return this.#transport.json({ method: "POST", path: ["api", "message"], json: message, idempotencyKey, signal });
  }

  /** Sends a message and gives the text of the answers to it, as it comes. It returns when the run ends, and throws if the run fails. */
  ask(sessionId: string, content: Content, options: AskOptions = {}): AsyncGenerator<string, RunComplete, void> {
    return answer(this, sessionId, content, options);
  }

  /** What happens in a session. */
  events(sessionId: string, options: EventsOptions = {}): AsyncGenerator<LonghaulEvent, never, void> {
    return stream(this.#transport, this.#stream, sessionId, options);
  }

  /** Everything that was said. */
  async *messages(sessionId: string, options: MessagesOptions = {}): AsyncGenerator<Message, void, void> {
    const { pageSize: limit, signal } = options;
    const isBackwards = options.before !== undefined;
    let position: number | null = (isBackwards ? options.before : options.after) ?? null;
    for (;;) {
      const page = await this.messagesPage(sessionId, where(isBackwards, position, limit, signal));
      yield* isBackwards ? page.messages.reverse() : page.messages;
      position = isBackwards ? page.before : page.after;
      if (!page.hasMore || position === null) return;
    }
  }

  /** One page, oldest first. Give `after` or `before`, not both. */
  messagesPage(sessionId: string, options: PageOptions = {}): Promise<MessagesPage> {
    const { after, before, limit, signal } = options;
    return this.#transport.json({ ...get(sessionId, "messages"), query: { after, before, limit }, signal });
  }

  /** Cancel the current run. */
  cancel(sessionId: string, options: { clearQueue?: boolean } & WorkOptions = {}): Promise<Cancelled> {
    const { clearQueue } = options;
    return this.#transport.json(post(sessionId, ["cancel"], options, { clearQueue }));
  }

  /** Goes on with what waits, or with what was left unanswered. */
  resume(sessionId: string, options: WorkOptions = {}): Promise<Resumed> {
    return this.#transport.json(post(sessionId, ["resume"], options));
  }

  /** Retry the model's server at once, while the session has the status `waiting_for_server`. */
  retry(sessionId: string, options: WorkOptions = {}): Promise<Retried> {
    return this.#transport.json(post(sessionId, ["retry"], options));
  }

  /** Get the use of the context window. */
  context(sessionId: string, { signal }: CallOptions = {}): Promise<ContextReport> {
    return this.#transport.json({ ...get(sessionId, "context"), signal });
  }

  /** Makes room now; with `dryRun` it only says how. */
  compact(sessionId: string, options: CompactRequest & WorkOptions & { dryRun: true }): Promise<CompactionPreview>;
  compact(sessionId: string, options?: CompactRequest & WorkOptions & { dryRun?: false }): Promise<Compacted>;
  compact(
    sessionId: string,
    options: CompactRequest & WorkOptions & { dryRun?: boolean } = {},
  ): Promise<Compacted | CompactionPreview> {
    const { strategy, instructions, dryRun } = options;
    return this.#transport.json(post(sessionId, ["compact"], options, { strategy, instructions, dryRun }));
  }

  /** List compactions and prunings. */
  async compactions(sessionId: string, { signal }: CallOptions = {}): Promise<Compaction[]> {
    const call = { ...get(sessionId, "compactions"), signal };
    return (await this.#transport.json<{ compactions: Compaction[] }>(call)).compactions;
  }

  /** Undo a compaction. */
  undo(sessionId: string, compactionId: string, options: WorkOptions = {}): Promise<Undone> {
    return this.#transport.json(post(sessionId, ["compactions", compactionId, "undo"], options));
  }

  /** What an undo brought back may be compacted automatically again. */
  release(sessionId: string, compactionId: string, options: WorkOptions = {}): Promise<Released> {
    return this.#transport.json(post(sessionId, ["compactions", compactionId, "release"], options));
  }

  /** The standing orders that hold, the oldest first; with `all` those that do not hold any more too. */
  async orders(sessionId: string, { all, signal }: CallOptions & { all?: boolean } = {}): Promise<StandingOrder[]> {
    const call = { ...get(sessionId, "orders"), ...(all ? { query: { all } } : {}), signal };
    return (await this.#transport.json<{ orders: StandingOrder[] }>(call)).orders;
  }

  /** Pin a standing order, which the model sees whole from its next step on. */
  pinOrder(sessionId: string, order: PinOrder, options: WorkOptions = {}): Promise<OrderPinned> {
    return this.#transport.json(post(sessionId, ["orders"], options, order));
  }

  /** Edit a standing order. */
  editOrder(sessionId: string, orderId: string, text: string, { signal }: CallOptions = {}): Promise<OrderChanged> {
    const path = ["api", "sessions", sessionId, "orders", orderId];
    return this.#transport.json({ method: "PATCH", path, json: { text }, signal });
  }

  /** Remove a standing order; the log keeps it. */
  removeOrder(sessionId: string, orderId: string, { signal }: CallOptions = {}): Promise<OrderChanged> {
    const path = ["api", "sessions", sessionId, "orders", orderId];
    return this.#transport.json({ method: "DELETE", path, signal });
  }

  /** Recall an exact original, or search a session. */
  recall(sessionId: string, wanted: RecallRequest, { signal }: CallOptions = {}): Promise<Recalled> {
    return this.#transport.json({ ...get(sessionId, "recall"), query: { ...wanted }, signal });
  }

  /** Any route, with the same errors and the same care in repeating: a `POST` is repeated only with an `idempotencyKey`. */
  request<T>(call: Call): Promise<T> {
    return this.#transport.json(call);
  }
}

function get(sessionId: string, what: string): { method: "GET"; path: string[] } {
  return { method: "GET", path: ["api", "sessions", sessionId, what] };
}

function post(sessionId: string, what: string[], options: WorkOptions, json: unknown = {}): Call {
  const { signal, idempotencyKey = newKey() } = options;
  return { method: "POST", path: ["api", "sessions", sessionId, ...what], json, idempotencyKey, signal };
}

function where(
  isBackwards: boolean,
  position: number | null,
  limit: number | undefined,
  signal: AbortSignal | undefined,
): PageOptions {
  const at = position === null ? {} : isBackwards ? { before: newest(position) } : { after: position };
  return { ...at, ...(limit === undefined ? {} : { limit }), ...(signal ? { signal } : {}) };
}

function newest(position: number): number {
  return Math.min(position, Number.MAX_SAFE_INTEGER);
}
