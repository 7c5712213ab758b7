import type { LonghaulEvent, MessageAdded } from "./event.js";

/** The text of answers as they come: each character once, whatever is told twice.
 *
 * An answer is told in chunks with their offsets, as a snapshot after an interruption, and as a whole when it is stored. One that was paused is stored in pieces; its chunks go on counting under the name of the first. Offsets count code points. */
export class Spoken {
  /** Code points given of each answer. */
  readonly #given = new Map<string, number>();
  /** Code points stored of each answer that was paused. */
  readonly #stored = new Map<string, number>();

  /** The text that an event adds. */
  more(event: LonghaulEvent): string {
    switch (event.name) {
      case "llm:chunk":
        return event.chunkType === "text" ? this.#from(event.messageId, event.offset, event.content) : "";
      case "llm:snapshot":
        return this.#from(event.messageId, 0, textOf(event.parts));
      case "message:added":
        return event.source === "model" ? this.#whole(event) : "";
      default:
        return "";
    }
  }

  #whole(event: MessageAdded): string {
    const answer = event.continues ?? event.messageId;
    const begins = this.#stored.get(answer) ?? 0;
    const text = textOf(event.parts);
    if (event.paused) this.#stored.set(answer, begins + length(text));
    return this.#from(answer, begins, text);
  }

  /** What is new of the text that begins at `offset`. */
  #from(answer: string, offset: number, text: string): string {
    const given = this.#given.get(answer) ?? 0;
    const end = offset + length(text);
    // What lies between is told later, when the answer is stored.
    if (offset > given || end <= given) return "";
    this.#given.set(answer, end);
    return offset === given ? text : Array.from(text).slice(given - offset).join("");
  }
}

function textOf(parts: readonly { type: string }[]): string {
  return parts.map((part) => (part.type === "text" ? (part as { type: "text"; text: string }).text : "")).join("");
}

function length(text: string): number {
  let codePoints = 0;
  for (const _ of text) codePoints += 1;
  return codePoints;
}
