/** Times between attempts, in milliseconds. */
export interface Backoff {
  /** The longest first pause; it doubles with each attempt. */
  baseMs: number;
  /** The longest pause. */
  maxMs: number;
}

/** How long to wait after `failures` in a row: anything up to the bound, so that many clients do not come back at once. `random` is in [0, 1). */
export function delay(backoff: Backoff, failures: number, random: number): number {
  const bound = Math.min(backoff.maxMs, backoff.baseMs * 2 ** Math.max(0, failures - 1));
  return bound / 2 + (random * bound) / 2;
}

/** Waits; rejects with the signal's reason as soon as it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const leave = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", leave);
      resolve();
    }, ms);
    signal?.addEventListener("abort", leave, { once: true });
  });
}
