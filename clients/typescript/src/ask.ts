import type { CallOptions } from "./call.js";
import type { Longhaul } from "./client.js";
import { LonghaulError } from "./error.js";
import type { LonghaulEvent, RunComplete } from "./event.js";
import { Spoken } from "./spoken.js";
import type { Content, MessageMetadata, SendMessage, Sent } from "./types.js";

export interface AskOptions extends CallOptions {
  /** Data that is stored and returned with the message and never shown to the model. */
  metadata?: MessageMetadata;
  /** Told of every event meanwhile, for example of `tool:approval-request`. */
  onEvent?: (event: LonghaulEvent) => void;
}

/** See `Longhaul.ask`. Leaving it cancels nothing. */
export async function* answer(
  client: Longhaul,
  sessionId: string,
  content: Content,
  options: AskOptions,
): AsyncGenerator<string, RunComplete, void> {
  const { metadata, onEvent, signal } = options;
  const within = signal ? { signal } : {};
  const message: SendMessage = { sessionId, content, ...(metadata ? { metadata } : {}) };
  const spoken = new Spoken();
  let turn: Turn | undefined;
  for await (const event of client.events(sessionId, within)) {
    onEvent?.(event);
    if (!turn) {
      // From here on nothing is missed.
      if (event.name === "queue:snapshot") {
        turn = new Turn(client, await client.sendMessage(message, within), within);
      }
      continue;
    }
    if (!(await turn.has(event))) continue;
    const text = spoken.more(event);
    if (text) yield text;
    if (event.name === "run:complete") return ended(event);
  }
  throw new Error("a stream of events has no end");
}

/** Whether a message was taken yet. */
class Turn {
  #hasCome = false;
  #seen = 0;
  /** The message did not wait when the log was here: if it was not taken by then it was removed. */
  #goneAt = Infinity;

  constructor(
    private readonly client: Longhaul,
    private readonly sent: Sent,
    private readonly within: CallOptions,
  ) {}

  /** Whether the event comes with the message or after it. Throws if the message will not be taken by itself. */
  async has(event: LonghaulEvent): Promise<boolean> {
    const { sent } = this;
    const id = sent.queued ? sent.id : sent.messageId;
    if (event.name === "message:dequeued") this.#hasCome ||= event.ids.includes(id);
    if (this.#hasCome || !sent.queued) return this.#hasCome;
    this.#seen = event.seq ?? this.#seen;
    if (event.name === "queue:snapshot" && !event.entries.some((entry) => entry.id === id)) {
      this.#goneAt = (await this.client.sessions.get(sent.sessionId, this.within)).lastSeq;
    }
    const isRemoved = event.name === "message:removed" && event.id === id;
    if (isRemoved || this.#seen >= this.#goneAt) throw notTaken("The message was removed from the queue.");
    if (event.name === "run:complete" && event.finishReason !== "stop" && (await this.#rests(id))) {
      throw notTaken("The run ended before it took the message, which waits: resume takes it.");
    }
    return false;
  }

  async #rests(id: string): Promise<boolean> {
    const { client, sent, within } = this;
    const { status } = await client.sessions.get(sent.sessionId, within);
    if (status !== "idle" && status !== "parked") return false;
    const { entries } = await client.queue.list(sent.sessionId, within);
    return entries.some((entry) => entry.id === id);
  }
}

function notTaken(detail: string): LonghaulError {
  return new LonghaulError({ code: "not-taken", status: 0, detail });
}

function ended(event: RunComplete): RunComplete {
  if (event.finishReason !== "error") return event;
  const { code, message } = event.error ?? { code: "interrupted", message: "The run failed." };
  throw new LonghaulError({ code, status: 0, detail: message, problem: { ...event } });
}
