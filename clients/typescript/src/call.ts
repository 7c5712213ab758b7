/** What every method takes besides its own. */
export interface CallOptions {
  /** Gives up waiting for the answer. What was begun goes on. */
  signal?: AbortSignal;
}

/** Of methods that start work. */
export interface WorkOptions extends CallOptions {
  /** One is made for each call unless it is given. The same call under the same key is done once, also after a restart of either side. */
  idempotencyKey?: string;
}
