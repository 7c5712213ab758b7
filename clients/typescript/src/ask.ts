import type { CallOptions } from "./call.js";
import type { Longhaul } from "./client.js";
import { LonghaulError } from "./error.js";
import type { LonghaulEvent, RunComplete } from "./event.js";
import { Spoken } from "./spoken.js";
import type { Content, Sent } from "./types.js";

export interface AskOptions extends CallOptions {
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
  const { onEvent, signal } = options;
  const within = signal ? { signal } : {};
  const { lastSeq } = await client.sessions.get(sessionId, within);
  const sent = await client.sendMessage({ sessionId, content }, within);
  const id = sent.queued ? sent.id : sent.messageId;
  const spoken = new Spoken();
  let isTaken = false;
  for await (const event of client.events(sessionId, { after: lastSeq, ...within })) {
    onEvent?.(event);
    if (event.name === "message:dequeued") isTaken ||= event.ids.includes(id);
    if (!isTaken) {
      await checkWaits(client, sent, event, within);
      continue;
    }
    const text = spoken.more(event);
    if (text) yield text;
    if (event.name === "run:complete") return ended(event);
  }
  throw new Error("unreachable: a stream of events has no end");
}

/** Throws if the message will not be taken by itself. */
async function checkWaits(
  client: Longhaul,
  sent: Sent,
  event: LonghaulEvent,
  within: { signal?: AbortSignal },
): Promise<void> {
  if (!sent.queued) return;
  if (event.name === "message:removed" && event.id === sent.id) throw notTaken("The message was removed from the queue.");
  if (event.name !== "run:complete" || event.finishReason === "stop") return;
  const session = await client.sessions.get(sent.sessionId, within);
  if (session.status !== "idle" && session.status !== "parked") return;
  const { entries } = await client.queue.list(sent.sessionId, within);
  if (entries.some((entry) => entry.id === sent.id)) {
    throw notTaken("The run ended before it took the message, which waits: resume takes it.");
  }
}

function notTaken(detail: string): LonghaulError {
  return new LonghaulError({ code: "not-taken", status: 0, detail });
}

function ended(event: RunComplete): RunComplete {
  if (event.finishReason !== "error") return event;
  const { code, message } = event.error ?? { code: "error", message: "The run failed." };
  throw new LonghaulError({ code, status: 0, detail: message, problem: { ...event } });
}
