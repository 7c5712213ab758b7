import { LonghaulError } from "./error.js";
import type { LonghaulEvent } from "./event.js";
import { reached, type Transport, unreachable } from "./http.js";
import { type Backoff, delay, pause } from "./pause.js";
import { Place } from "./place.js";
import { SseParser } from "./sse.js";

export interface StreamPolicy extends Backoff {
  /** A stream that is silent for so long is opened again. The server says every 15 s that it lives. */
  heartbeatTimeoutMs: number;
}

export interface EventsOptions {
  /** The position from which on events are given: 0 is the beginning. Unless it is said: what happens from now on. */
  after?: number;
  /** Ends the stream: the iteration throws the signal's reason. */
  signal?: AbortSignal;
  /** Told whenever the stream is cut, before it is opened again. */
  onInterruption?: (error: LonghaulError) => void;
}

/** A session's events, each stored one once and in order, across interruptions. It ends by the signal, by leaving the loop, or by an answer that waiting does not change, for example 404 once the session is deleted. */
export async function* stream(
  transport: Transport,
  policy: StreamPolicy,
  sessionId: string,
  options: EventsOptions = {},
): AsyncGenerator<LonghaulEvent, never, void> {
  const place = new Place(options.after);
  const { signal } = options;
  let asked: number | undefined;
  let [hasBegun, failures] = [false, 0];
  for (;;) {
    const connection = new Connection(transport, policy, sessionId, place.after, hasBegun, signal);
    let cut: LonghaulError;
    try {
      await connection.open();
      place.connect();
      for await (const events of connection.read(place)) {
        [hasBegun, failures] = [true, 0];
        for (const event of events) {
          signal?.throwIfAborted();
          yield event;
        }
      }
      cut = new LonghaulError({ code: "unreachable", status: 0, detail: "The server ended the stream." });
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof LonghaulError)) throw error;
      cut = error;
    } finally {
      connection.close();
    }
    failures += 1;
    const wait = pauseAfter(cut, failures, hasBegun, asked ?? policy.baseMs, transport, policy);
    asked = connection.retryMs ?? asked;
    if (wait === undefined) throw cut;
    options.onInterruption?.(cut);
    await pause(wait, signal);
  }
}

/** Before a stream has begun it is a request like others; one that has begun comes back as long as there is hope. */
function pauseAfter(
  cut: LonghaulError,
  failures: number,
  hasBegun: boolean,
  baseMs: number,
  transport: Transport,
  policy: StreamPolicy,
): number | undefined {
  if (!hasBegun) return failures < transport.retry.attempts ? transport.wait(cut, failures) : undefined;
  const isHopeless = cut.status >= 200 && cut.status < 500 && cut.status !== 429;
  if (isHopeless) return undefined;
  return cut.retryAfterMs ?? delay({ ...policy, baseMs }, failures, Math.random());
}

/** One request for the events after a position. */
class Connection {
  readonly #parser = new SseParser();
  readonly #stop = new AbortController();
  readonly #leave = () => this.#stop.abort(this.signal?.reason);
  #body: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly policy: StreamPolicy,
    private readonly sessionId: string,
    private readonly after: number | undefined,
    private readonly isResumed: boolean,
    private readonly signal: AbortSignal | undefined,
  ) {
    signal?.addEventListener("abort", this.#leave, { once: true });
    if (signal?.aborted) this.#leave();
  }

  get retryMs(): number | undefined {
    return this.#parser.retryMs;
  }

  async open(): Promise<void> {
    const { after, isResumed } = this;
    const resumes = isResumed && after !== undefined;
    const response = await this.#inTime(
      this.transport.open({
        method: "GET",
        path: ["api", "sessions", this.sessionId, "events"],
        query: { after: resumes ? undefined : after },
        headers: { accept: "text/event-stream", ...(resumes ? { "last-event-id": String(after) } : {}) },
        signal: this.#stop.signal,
      }),
    );
    const kind = response.headers.get("content-type") ?? "";
    this.#body = response.body?.getReader();
    if (!this.#body || !kind.startsWith("text/event-stream")) {
      const detail = `The answer is no stream of events but ${kind || "empty"}.`;
      throw new LonghaulError({ code: "unexpected-answer", status: response.status, detail });
    }
  }

  /** The events that are new, as the bytes bring them. */
  async *read(place: Place): AsyncGenerator<LonghaulEvent[], void, void> {
    while (this.#body) {
      const { done, value } = await this.#inTime(this.#body.read());
      if (done) return;
      const frames = this.#parser.push(value);
      yield frames.flatMap((frame) => place.take(frame) ?? []);
    }
  }

  close(): void {
    this.signal?.removeEventListener("abort", this.#leave);
    this.#stop.abort();
    this.#body?.cancel().catch(() => {});
  }

  /** Only while it is waited for: who is slow to take events does not find the stream cut. */
  async #inTime<T>(work: Promise<T>): Promise<T> {
    const silent = unreachable(new Error("nothing was heard of it in time"));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(silent);
        this.#stop.abort(silent);
      }, this.policy.heartbeatTimeoutMs);
    });
    try {
      return await Promise.race([reached(work, this.signal), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}
