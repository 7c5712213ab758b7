import assert from "node:assert/strict";
import type { LonghaulEvent } from "../src/index.js";
import type { Request } from "./model.js";
import { served, Watch } from "./world.js";

function* asking(request: Request) {
  if (request.messages.at(-1)?.role === "tool") yield "I see.";
  else yield { call: "bash", args: { command: "echo ran" } };
}

for (const decision of ["allow", "deny"] as const) {
  served(`a tool that asks is answered: ${decision}`, asking, async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    await client.sendMessage({ sessionId, content: "Run it" });
    const request = await watch.next("tool:approval-request");
    assert.deepEqual([request.toolName, request.args], ["bash", { command: "echo ran" }]);
    assert.equal((await client.sessions.get(sessionId)).status, "waiting_approval");
    const [question, ...others] = await client.approvals.list();
    assert.equal(others.length, 0);
    assert.deepEqual([question?.approvalId, question?.sessionId, question?.callId], [request.approvalId, sessionId, request.callId]);
    const decided = await client.approvals.decide(request.approvalId, decision, { reason: "Because." });
    assert.deepEqual(decided, { ok: true, approvalId: request.approvalId, sessionId, decision });
    assert.equal((await watch.next("tool:approval-response")).decision, decision);
    assert.equal((await watch.next("llm:tool-result")).success, decision === "allow");
    assert.equal((await watch.next("run:complete")).finishReason, "stop");
    assert.deepEqual(await client.approvals.list({ sessionId }), []);
    await assert.rejects(client.approvals.decide(request.approvalId, decision), { code: "not-found", status: 404 });
    await watch.stop();
  });
}

served("who asks answers questions meanwhile", asking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const onEvent = (event: LonghaulEvent) => {
    if (event.name === "tool:approval-request") void client.approvals.decide(event.approvalId, "allow");
  };
  let said = "";
  for await (const text of client.ask(sessionId, "Run it", { onEvent })) said += text;
  assert.equal(said, "I see.");
});
