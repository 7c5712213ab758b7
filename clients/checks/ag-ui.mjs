// AG-UI's own client at the other end of `POST /api/ag-ui`.

import assert from "node:assert/strict";
import { HttpAgent, verifyEvents } from "@ag-ui/client";
import { serve, until } from "./server.mjs";

const { slow } = JSON.parse(process.env.LONGHAUL_CHECK);
// It warns of whatever it had to remove.
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

await serve(async ({ url, headers, ask }) => {
  const agent = new HttpAgent({ url: `${url}/api/ag-ui`, headers, threadId: "thread-1" });
  agent.state = { mine: "kept" };
  const run = async (text, parameters) => {
    const events = [];
    if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
    return events;
  };
  const of = (events, type) => events.filter((event) => event.type === type);
  const newest = (role) => agent.messages.findLast((message) => message.role === role);

  // Two turns, tools and reasoning; runAgent verifies the order of all events.
  const first = await run("look");
  assert.equal(of(first, "RUN_FINISHED")[0].outcome.type, "success");
  assert.ok(of(first, "RUN_FINISHED")[0].usage[0].totalTokens > 0);
  const calling = agent.messages.find(({ toolCalls }) => toolCalls?.length);
  assert.equal(calling.content, "I look. ");
  assert.equal(calling.toolCalls[0].function.name, "ls");
  assert.deepEqual(JSON.parse(calling.toolCalls[0].function.arguments), { path: "." });
  assert.match(newest("tool").content, /notes\.md/);
  assert.equal(newest("tool").toolCallId, calling.toolCalls[0].id);
  assert.equal(newest("reasoning").content, "One file, then.");
  assert.equal(newest("assistant").content, "There is one file.");
  assert.equal(agent.state.mine, "kept");
  assert.ok(agent.state.longhaul.context.total > 0);
  await run("and now?");
  assert.equal(newest("assistant").content, "The second answer.");
  const { messages } = await ask("GET", "/api/sessions/thread-1/messages");
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant", "tool", "assistant", "user", "assistant"],
  );

  // A tool that asks interrupts the run; the answer resumes it.
  const asked = await run("write");
  assert.equal(of(asked, "RUN_FINISHED")[0].outcome.type, "interrupt");
  const [{ id, toolCallId }] = agent.pendingInterrupts;
  const resume = [{ interruptId: id, status: "resolved", payload: { approved: true } }];
  const resumed = await run(null, { resume });
  assert.equal(of(resumed, "TOOL_CALL_RESULT")[0].toolCallId, toolCallId);
  assert.equal(newest("assistant").content, "It is written.");
  assert.equal(agent.pendingInterrupts.length, 0);

  // A cancelled run is no failed one.
  const talk = run("talk");
  await until("some words", () => newest("assistant").content.startsWith(slow.slice(0, 10)));
  await ask("POST", "/api/sessions/thread-1/cancel", {});
  assert.equal(of(await talk, "RUN_FINISHED")[0].outcome.type, "cancelled");

  // What fails is RUN_ERROR, and the next run is fine.
  const failed = [];
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "fail" });
  await agent.runAgent({}, { onEvent: ({ event }) => void failed.push(event) }).catch(() => {});
  const error = of(failed, "RUN_ERROR")[0];
  assert.match(error.message, /broken on purpose/);
  assert.equal(error.code, "invalid-request");

  // The stream as it comes over the wire, under the checks alone.
  const events = await new Promise((resolve, reject) => {
    const seen = [];
    const input = { threadId: "thread-2", runId: "run-1", messages: [{ id: "m1", role: "user", content: "hello" }],
      tools: [], context: [], state: {}, forwardedProps: {} };
    const checked = verifyEvents()(agent.run(input));
    checked.subscribe({ next: (event) => seen.push(event), error: reject, complete: () => resolve(seen) });
  });
  assert.equal(events[0].type, "RUN_STARTED");
  assert.equal(events[0].runId, "run-1");
  assert.equal(of(events, "TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), "By hand.");
  assert.equal(events.at(-1).type, "RUN_FINISHED");
  assert.deepEqual(warnings, []);
});
console.log("{}");
