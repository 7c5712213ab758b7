import { LonghaulError, refusal } from "./error.js";
import { type Backoff, delay, pause } from "./pause.js";

export interface RetryPolicy extends Backoff {
  /** How often a request is tried, the first included. */
  attempts: number;
  /** A server that wants to be left alone for longer is not waited for. */
  maxRetryAfterMs: number;
}

/** A request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The names in the path, as they are: they are encoded here. */
  path: readonly string[];
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. */
  bytes?: Uint8Array<ArrayBuffer> | ArrayBuffer | Blob;
  headers?: Readonly<Record<string, string>>;
  /** Under which the server does it once, however often it is sent. */
  idempotencyKey?: string | undefined;
  /** Whether doing it twice is the same as once. Unless it is said: every method but POST. */
  repeatable?: boolean;
  /** Told before each attempt. */
  onAttempt?: () => void;
  signal?: AbortSignal | undefined;
}

export interface TransportOptions {
  baseUrl: string | URL;
  token?: string | undefined;
  fetch?: typeof fetch | undefined;
  retry: RetryPolicy;
}

/** Brings requests to a server, again where that is safe. */
export class Transport {
  readonly retry: RetryPolicy;
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: TransportOptions) {
    this.#base = new URL(options.baseUrl);
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    this.#token = options.token;
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.retry = options.retry;
  }

  /** Sends it, and reads the answer as JSON. */
  async json<T>(call: Call): Promise<T> {
    const text = await this.send(call, (response) => response.text());
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new LonghaulError({ code: "unexpected-answer", status: 200, detail: "The answer is not JSON.", cause });
    }
  }

  /** Sends it until there is an answer, and reads that. What may not be done twice is sent once. */
  async send<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const may = call.repeatable ?? (call.method !== "POST" || call.idempotencyKey !== undefined);
    for (let failures = 1; ; failures += 1) {
      try {
        call.onAttempt?.();
        return await this.#attempt(call, read);
      } catch (error) {
        const wait = may && failures < this.retry.attempts ? this.wait(error, failures) : undefined;
        if (wait === undefined) throw error;
        await pause(wait, call.signal);
      }
    }
  }

  /** Sends it once. The answer is `ok`; its body is not read. */
  async open(call: Call): Promise<Response> {
    const [url, init] = this.#request(call);
    const response = await reached(this.#fetch(url, init), call.signal);
    if (response.ok) return response;
    throw await refusal(response, Date.now());
  }

  /** How long to wait before the next attempt after `failures`; `undefined` if there is no use in it. */
  wait(error: unknown, failures: number): number | undefined {
    if (!(error instanceof LonghaulError)) return undefined;
    const isTransient = error.code === "unreachable" || error.status === 429 || error.status === 503;
    const asked = error.retryAfterMs;
    if (!isTransient || (asked ?? 0) > this.retry.maxRetryAfterMs) return undefined;
    return asked ?? delay(this.retry, failures, Math.random());
  }

  async #attempt<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const response = await this.open(call);
    return reached(read(response), call.signal);
  }

  #request(call: Call): [URL, RequestInit] {
    const url = new URL(call.path.map(segment).join("/"), this.#base);
    for (const [key, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) url.searchParams.set(key, String(value));
    }
    const headers = new Headers(call.headers);
    if (this.#token !== undefined) headers.set("authorization", `Bearer ${this.#token}`);
    if (call.idempotencyKey !== undefined) headers.set("idempotency-key", call.idempotencyKey);
    const init: RequestInit = { method: call.method, headers, cache: "no-store" };
    if (call.signal) init.signal = call.signal;
    if (call.bytes !== undefined) init.body = call.bytes;
    if (call.json !== undefined) {
      headers.set("content-type", "application/json");
      init.body = JSON.stringify(call.json);
    }
    return [url, init];
  }
}

/** A name in a path. One that would lead elsewhere is no name. */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..") throw new TypeError(`Not an id: ${JSON.stringify(name)}`);
  return encodeURIComponent(name);
}

/** What `fetch` and bodies reject with is a network that failed, unless the caller gave up. */
export async function reached<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    if (cause instanceof LonghaulError) throw cause;
    throw unreachable(cause);
  }
}

export function unreachable(cause: unknown): LonghaulError {
  return new LonghaulError({ code: "unreachable", status: 0, detail: `The server does not answer: ${reason(cause)}`, cause });
}

function reason(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { cause: inner } = cause;
  return inner instanceof Error && inner.message ? inner.message : cause.message;
}

/** A key that nobody has used. Pages without TLS have no `crypto.randomUUID`. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
