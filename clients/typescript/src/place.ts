import { LonghaulError } from "./error.js";
import type { LonghaulEvent } from "./event.js";
import type { SseFrame } from "./sse.js";

/** Where a reader of a session's events is.
 *
 * One stored event may be told in several frames, all with its `seq`; the `id` of the last is its position, of the others a part of it (`3.1`). Whoever goes on from a position gets all frames behind it, so those that were given are counted. */
export class Place {
  /** Everything up to this position was given. */
  after: number | undefined;
  /** Frames given of the one event behind it. */
  #begun = { seq: 0, frames: 0 };
  /** How many of them this connection is still to repeat. */
  #repeats = 0;

  constructor(after: number | undefined) {
    this.after = after;
  }

  /** A connection begins, from `after`. */
  connect(): void {
    this.#repeats = this.#begun.frames;
  }

  /** The event, unless it was given before. */
  take(frame: SseFrame): LonghaulEvent | undefined {
    const event = parsed(frame);
    const isNew = event.seq === undefined ? true : this.#isNew(event.seq);
    const id = frame.lastEventId;
    if (event.name === "stream:gap") this.#skip(event.from, event.to);
    else if (event.seq !== undefined && id === String(event.seq)) this.after = event.seq;
    else if (event.name === "queue:snapshot" && /^\d+$/.test(id)) this.after = Number(id);
    return isNew ? event : undefined;
  }

  #isNew(seq: number): boolean {
    if (this.after !== undefined && seq <= this.after) return false;
    if (seq !== this.#begun.seq) {
      this.#begun = { seq, frames: 0 };
      this.#repeats = 0;
    }
    if (this.#repeats > 0) {
      this.#repeats -= 1;
      return false;
    }
    this.#begun.frames += 1;
    return true;
  }

  /** What lies between cannot be had. A gap that begins where we were, or before, means that the log is shorter than it was. */
  #skip(from: number, to: number): void {
    this.after = from <= (this.after ?? 0) ? from : to;
    this.#begun = { seq: 0, frames: 0 };
    this.#repeats = 0;
  }
}

function parsed(frame: SseFrame): LonghaulEvent {
  try {
    const event = JSON.parse(frame.data) as LonghaulEvent | null;
    if (typeof event?.name === "string") return event;
  } catch {
    // Said below.
  }
  throw new LonghaulError({ code: "unexpected-answer", status: 200, detail: "An event of the stream is not as expected." });
}
