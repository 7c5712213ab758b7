// A chat in the terminal. What is typed while an answer comes is said at the next step; Ctrl-C cancels, and ends the chat when nothing goes on.
//
//   npm run example chat            with LONGHAUL_TOKEN, and LONGHAUL_URL unless the server is at 127.0.0.1:4400
//   npm run example chat SESSION    goes on with a session

import { createInterface } from "node:readline/promises";
import { Longhaul, LonghaulError, type LonghaulEvent } from "longhaul-client";

const { LONGHAUL_URL = "http://127.0.0.1:4400", LONGHAUL_TOKEN = "" } = process.env;
const client = new Longhaul({ baseUrl: LONGHAUL_URL, token: LONGHAUL_TOKEN });
const named = process.argv[2];
const session = await (named ? client.sessions.get(named) : client.sessions.create());
const lines = createInterface({ input: process.stdin });
const stop = new AbortController();
let [isBusy, approvalId] = [session.status !== "idle", ""];

say(`Session ${session.id}, ${session.model.model}`);
const watching = watch().catch((error: unknown) => {
  if (!stop.signal.aborted) throw error;
});
process.on("SIGINT", () => void (isBusy ? client.cancel(session.id, { clearQueue: true }) : stop.abort()));
stop.signal.addEventListener("abort", () => lines.close());
for await (const line of lines) await take(line).catch(explain);
stop.abort();
await watching;

async function take(line: string): Promise<void> {
  if (approvalId) {
    const asked = approvalId;
    approvalId = "";
    await client.approvals.decide(asked, line.trim() === "y" ? "allow" : "deny");
  } else if (line.trim()) {
    const sent = await client.sendMessage({ sessionId: session.id, content: line });
    if (sent.queued) say(`(waits at position ${sent.position})`);
  }
}

async function watch(): Promise<void> {
  for await (const event of client.events(session.id, { after: session.lastSeq, signal: stop.signal })) show(event);
}

function show(event: LonghaulEvent): void {
  switch (event.name) {
    case "run:started":
      isBusy = true;
      break;
    case "llm:chunk":
      if (event.chunkType === "text") process.stdout.write(event.content);
      break;
    case "tool:started":
      say(`(runs ${event.callId})`);
      break;
    case "tool:approval-request":
      approvalId = event.approvalId;
      say(`May ${event.toolName} run with ${event.argsText}? y or n`);
      break;
    case "context:compressed":
      say(`(compressed: ${event.originalTokens} → ${event.compressedTokens} tokens)`);
      break;
    case "run:complete":
      isBusy = false;
      say(event.finishReason === "stop" ? "" : `(${event.error?.message ?? event.finishReason})`);
      break;
    default:
  }
}

function explain(error: unknown): void {
  if (!(error instanceof LonghaulError)) throw error;
  say(error.detail);
}

function say(text: string): void {
  process.stdout.write(`\n${text}\n`);
}
