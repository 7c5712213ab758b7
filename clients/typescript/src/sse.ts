/** Server-sent events, as the HTML standard has them (section 9.2.6). */

export interface SseFrame {
  /** The type; `message` if none was named. */
  event: string;
  data: string;
  /** The position after it, empty before the first `id`. */
  lastEventId: string;
}

/** Takes a stream's bytes as they come, cut anywhere, and gives the events that are whole. What the stream ends in the middle of is no event. */
export class SseParser {
  /** What the stream asks to wait before it is opened again, in milliseconds. */
  retryMs: number | undefined;
  /** The last position that an ended block named. */
  lastEventId = "";

  #decoder = new TextDecoder("utf-8");
  /** The line that is not ended yet, in pieces. */
  #line: string[] = [];
  /** The text so far ended with a CR: an LF that follows belongs to it. */
  #afterCr = false;
  #event = "";
  #data: string[] = [];
  #id = "";

  push(bytes: Uint8Array): SseFrame[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    const frames: SseFrame[] = [];
    if (text === "") return frames;
    let begin = this.#afterCr && text.startsWith("\n") ? 1 : 0;
    this.#afterCr = text.endsWith("\r");
    const ends = /\r\n|\r|\n/g;
    ends.lastIndex = begin;
    for (let end = ends.exec(text); end; end = ends.exec(text)) {
      this.#line.push(text.slice(begin, end.index));
      const line = this.#line.length === 1 ? (this.#line[0] ?? "") : this.#line.join("");
      this.#line = [];
      begin = end.index + end[0].length;
      const frame = line === "" ? this.#dispatch() : this.#field(line);
      if (frame) frames.push(frame);
    }
    if (begin < text.length) this.#line.push(text.slice(begin));
    return frames;
  }

  #field(line: string): undefined {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? "" : line.slice(colon + 1);
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retryMs = Number(value);
  }

  #dispatch(): SseFrame | undefined {
    this.lastEventId = this.#id;
    const [event, data] = [this.#event, this.#data];
    this.#event = "";
    this.#data = [];
    if (data.length === 0) return undefined;
    return { event: event || "message", data: data.join("\n"), lastEventId: this.#id };
  }
}
