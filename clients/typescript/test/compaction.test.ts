import assert from "node:assert/strict";
import type { Longhaul } from "../src/index.js";
import { newest } from "./model.js";
import { served, Watch } from "./world.js";

async function long(client: Longhaul): Promise<string> {
  const { id } = await client.sessions.create();
  for (let turn = 1; turn <= 8; turn += 1) {
    const question = `Question ${turn}: the key of room ${turn} is key-${turn * 111}, in /srv/rooms/${turn}/key.txt. ${"More words that fill it. ".repeat(40)}`;
    for await (const _ of client.ask(id, question)) void _;
  }
  return id;
}

served("a session is compacted, looked into, undone and released", (request) => [`I have read: ${newest(request).slice(0, 12)}`], async (world) => {
  const client = world.client();
  const sessionId = await long(client);
  const before = await client.context(sessionId);
  assert.equal(before.window, 8000);
  const watch = new Watch(client, sessionId);
  await watch.next("queue:snapshot");

  const preview = await client.compact(sessionId, { dryRun: true, strategy: "truncation" });
  assert.ok(preview.plan.action === "edit", JSON.stringify(preview.plan));
  assert.ok(preview.plan.compressedTokens < preview.plan.originalTokens);
  assert.equal((await client.compactions(sessionId)).length, 0, "a dry run does nothing");

  const done = await client.compact(sessionId, { strategy: "truncation" });
  assert.ok(done.compacted && done.compaction);
  const { id: compactionId, survival, handles } = done.compaction;
  assert.ok(survival?.classes.paths?.recoverableByModel, JSON.stringify(survival));
  const compressed = await watch.next("context:compressed");
  assert.deepEqual([compressed.compactionId, compressed.reason, compressed.strategy], [compactionId, "requested", "truncation"]);
  assert.deepEqual(compressed.survival, survival);
  const [listed] = await client.compactions(sessionId);
  assert.deepEqual([listed?.id, listed?.active, listed?.released], [compactionId, true, false]);
  const after = await client.context(sessionId);
  assert.ok(after.total < before.total && after.compacted > 0 && after.compactionCount === 1);

  const handle = handles[0];
  assert.ok(handle);
  assert.match((await client.recall(sessionId, { handle })).text, /key-111/);
  assert.match((await client.recall(sessionId, { query: "room 2", limit: 3 })).text, /key-222/);
  await assert.rejects(client.recall(sessionId, { query: " " }), { code: "invalid-request", status: 400 });

  const undone = await client.undo(sessionId, compactionId, { idempotencyKey: "undo-it" });
  const restored = await client.context(sessionId);
  // Every message is back; the tool `recall`, which came with the compaction, stays. Before, the server's report was
  // divided among the parts, which rounds.
  assert.ok(Math.abs(restored.messages.total - before.messages.total) <= 1);
  assert.deepEqual(undone, { ok: true, compactionId, tokens: restored.total });
  assert.equal((await watch.next("context:restored")).tokens, restored.total);
  assert.deepEqual(await client.undo(sessionId, compactionId, { idempotencyKey: "undo-it" }), undone);
  await assert.rejects(client.undo(sessionId, compactionId), { code: "already-undone", status: 409 });
  await assert.rejects(client.undo(sessionId, "e9999"), { code: "not-found", status: 404 });
  assert.deepEqual(await client.release(sessionId, compactionId), { ok: true, compactionId });
  await assert.rejects(client.release(sessionId, compactionId), { code: "already-released", status: 409 });
  assert.equal((await client.compactions(sessionId))[0]?.released, true);
  await watch.stop();
});

served("a summary is written as it is told to be", (request) => [newest(request).length > 1400 ? "The keys are key-111 and others." : "Noted."], async (world) => {
  const client = world.client();
  const sessionId = await long(client);
  const preview = await client.compact(sessionId, { dryRun: true, strategy: "reactive-overflow" });
  assert.ok(preview.plan.action === "summarise", JSON.stringify(preview.plan));
  assert.equal(preview.plan.survivalWithoutSummary, true);
  const instructions = "Keep the keys of the rooms.";
  const done = await client.compact(sessionId, { strategy: "reactive-overflow", instructions });
  assert.ok(done.compacted);
  assert.ok(world.model.requests.some((request) => JSON.stringify(request).includes(instructions)));
  const summaries = [];
  for await (const message of client.messages(sessionId)) if (message.isSummary) summaries.push(message);
  assert.equal(summaries.length, 1);
});
