import type { CallOptions, WorkOptions } from "./call.js";
import { LonghaulError } from "./error.js";
import { newKey, type Transport } from "./http.js";
import type { Deleted, ForkedSession, Session, SessionSummary } from "./types.js";

/** Sessions: made, listed, shown, renamed, deleted, forked, exported. */
export class Sessions {
  constructor(private readonly transport: Transport) {}

  /** A new session. A title has 1 to 200 characters. */
  create(options: { title?: string } & WorkOptions = {}): Promise<Session> {
    const { title, signal, idempotencyKey = newKey() } = options;
    return this.transport.json({ method: "POST", path: ["api", "sessions"], json: { title }, idempotencyKey, signal });
  }

  /** The most recently changed first: 50 unless `limit` says otherwise, at most 1,000. */
  async list(options: { limit?: number } & CallOptions = {}): Promise<SessionSummary[]> {
    const { limit, signal } = options;
    const call = { method: "GET", path: ["api", "sessions"], query: { limit }, signal } as const;
    return (await this.transport.json<{ sessions: SessionSummary[] }>(call)).sessions;
  }

  get(sessionId: string, { signal }: CallOptions = {}): Promise<Session> {
    return this.transport.json({ method: "GET", path: ["api", "sessions", sessionId], signal });
  }

  rename(sessionId: string, title: string, { signal }: CallOptions = {}): Promise<Session> {
    return this.transport.json({ method: "PATCH", path: ["api", "sessions", sessionId], json: { title }, signal });
  }

  /** Deletes for good. */
  async delete(sessionId: string, { signal }: CallOptions = {}): Promise<Deleted> {
    let attempts = 0;
    const onAttempt = () => void (attempts += 1);
    try {
      return await this.transport.json({ method: "DELETE", path: ["api", "sessions", sessionId], signal, onAttempt });
    } catch (error) {
      // An attempt whose answer was lost had done it.
      const isGone = error instanceof LonghaulError && error.code === "not-found";
      if (isGone && attempts > 1) return { ok: true, id: sessionId };
      throw error;
    }
  }

  /** A new session that shares the log up to `atSeq`, or up to the newest event. 409 names the nearest positions if the session was not at rest there. */
  fork(sessionId: string, options: { atSeq?: number } & WorkOptions = {}): Promise<ForkedSession> {
    const { atSeq, signal, idempotencyKey = newKey() } = options;
    const path = ["api", "sessions", sessionId, "fork"];
    return this.transport.json({ method: "POST", path, json: { atSeq }, idempotencyKey, signal });
  }

  /** The session as a file: `jsonl` can be imported again, `markdown` is for people. */
  export(sessionId: string, options: { format?: "jsonl" | "markdown" } & CallOptions = {}): Promise<string> {
    const { format, signal } = options;
    const path = ["api", "sessions", sessionId, "export"];
    return this.transport.send({ method: "GET", path, query: { format }, signal }, (response) => response.text());
  }
}
