import type { CallOptions } from "./call.js";
import type { Transport } from "./http.js";
import type { Content, MessageMetadata, Queue, QueueChanged, QueueCleared } from "./types.js";

/** In which session a message waits. Unless it is said it is looked for in all. */
export interface InSession extends CallOptions {
  sessionId?: string;
}

export interface EditQueued extends InSession {
  metadata?: MessageMetadata;
}

/** List the queued messages while a session is busy. */
export class Waiting {
  constructor(private readonly transport: Transport) {}

  list(sessionId: string, { signal }: CallOptions = {}): Promise<Queue> {
    return this.transport.json({ method: "GET", path: ["api", "message", "queue"], query: { sessionId }, signal });
  }

  /** 404 once it was taken. Without `metadata` the message keeps what it has. */
  edit(id: string, content: Content, { sessionId, metadata, signal }: EditQueued = {}): Promise<QueueChanged> {
    const path = ["api", "message", "queue", id];
    const json = metadata ? { content, metadata } : { content };
    return this.transport.json({ method: "PATCH", path, query: { sessionId }, json, signal });
  }

  /** 404 once it was taken. */
  remove(id: string, { sessionId, signal }: InSession = {}): Promise<QueueChanged> {
    return this.transport.json({ method: "DELETE", path: ["api", "message", "queue", id], query: { sessionId }, signal });
  }

  /** Removes them all. */
  clear(sessionId: string, { signal }: CallOptions = {}): Promise<QueueCleared> {
    return this.transport.json({ method: "DELETE", path: ["api", "message", "queue"], query: { sessionId }, signal });
  }
}
