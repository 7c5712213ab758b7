import assert from "node:assert/strict";
import type { Message } from "../src/index.js";
import { Gate, newest } from "./model.js";
import { served, until, Watch } from "./world.js";

const ALLOW_BASH = "approvals:\n  rules:\n    - { tool: bash, decision: allow }";

function* greeting() {
  yield { reasoning: "Who is it?" };
  yield "Hello, ";
  yield "wörld 😀";
}

function text(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

served("a message is answered in a stream of typed events", greeting, async (world) => {
  const client = world.client();
  const session = await client.sessions.create({ title: "Greetings" });
  const watch = new Watch(client, session.id, 0);
  const sent = await client.sendMessage({ sessionId: session.id, content: "Hi" });
  assert.ok(!sent.queued);
  assert.equal(sent.sessionId, session.id);
  const typed = await watch.next("message:added");
  assert.deepEqual([typed.messageId, typed.source, typed.role], [sent.messageId, "typed", "user"]);
  const answer = await watch.next("message:added", (event) => event.source === "model");
  assert.deepEqual(answer.parts, [{ type: "reasoning", text: "Who is it?" }, { type: "text", text: "Hello, wörld 😀" }]);
  const response = await watch.next("llm:response");
  assert.equal(response.content, "Hello, wörld 😀");
  assert.equal(response.tokenUsage?.outputTokens, 3);
  const complete = await watch.next("run:complete");
  assert.deepEqual([complete.finishReason, complete.steps], ["stop", 1]);
  const chunks = watch.seen.flatMap((event) => (event.name === "llm:chunk" && event.chunkType === "text" ? [event.content] : []));
  assert.equal(chunks.join(""), "Hello, wörld 😀");
  await watch.stop();
});

served("a message without a session begins one", greeting, async (world) => {
  const client = world.client();
  const sent = await client.sendMessage({ content: [{ type: "text", text: "Hi there" }] });
  await until(async () => (await client.sessions.get(sent.sessionId)).status === "idle");
  const session = await client.sessions.get(sent.sessionId);
  assert.equal(session.title, "Hi there");
  assert.equal(session.lastFinishReason, "stop");
  assert.equal(session.model.model, "mock");
});

const first = new Gate();
served(
  "messages to a busy session wait, and can be edited and removed",
  function* (request) {
    yield "Wait. ";
    if (newest(request) === "begin") yield { wait: first.opened };
    yield "Done.";
  },
  async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    const begun = await client.sendMessage({ sessionId, content: "begin" });
    assert.equal(begun.queued, false);
    await watch.next("llm:chunk");
    const waiting = [];
    for (const content of ["one", "two", "three"]) {
      const sent = await client.sendMessage({ sessionId, content });
      assert.ok(sent.queued);
      waiting.push(sent);
    }
    assert.deepEqual(waiting.map((sent) => sent.position), [1, 2, 3]);
    assert.equal(waiting[1]?.message, "Message queued at position 2");
    const [one, two, three] = waiting.map((sent) => sent.id) as [string, string, string];

    assert.deepEqual(await client.queue.edit(two, "two, better", { sessionId }), { ok: true, id: two, sessionId });
    assert.equal((await watch.next("message:edited")).id, two);
    assert.deepEqual(await client.queue.remove(one), { ok: true, id: one, sessionId });
    assert.equal((await watch.next("message:removed")).id, one);
    const queue = await client.queue.list(sessionId);
    assert.deepEqual(queue.entries.map((entry) => [entry.id, entry.position, text(entry as unknown as Message)]), [
      [two, 1, "two, better"],
      [three, 2, "three"],
    ]);
    await assert.rejects(client.queue.remove(one, { sessionId }), { code: "not-found", status: 404 });

    first.open();
    const taken = await watch.next("message:dequeued");
    assert.deepEqual([taken.count, taken.ids, taken.coalesced], [2, [two, three], true]);
    await watch.next("run:complete");
    assert.equal(newest(world.model.requests.at(-1) as never), "First: two, better\n\nAlso: three");
    await watch.stop();
  },
);

const second = new Gate();
served(
  "the queue is cleared as a whole",
  function* () {
    yield "Wait. ";
    yield { wait: second.opened };
  },
  async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    await client.sendMessage({ sessionId, content: "begin" });
    await watch.next("llm:chunk");
    const sent = [await client.sendMessage({ sessionId, content: "a" }), await client.sendMessage({ sessionId, content: "b" })];
    const ids = sent.map((one) => one.queued && one.id);
    assert.deepEqual((await client.queue.clear(sessionId)).removed, ids);
    assert.equal((await client.queue.list(sessionId)).count, 0);
    await client.sendMessage({ sessionId, content: "c" });
    const cancelled = await client.cancel(sessionId, { clearQueue: true });
    assert.equal(cancelled.cancelled, true);
    assert.equal((await client.queue.list(sessionId)).count, 0);
    second.open();
    await watch.stop();
  },
);

const third = new Gate();
served(
  "an answer that is cancelled in its middle is kept as far as it came",
  function* () {
    yield "As far as ";
    yield "this";
    yield { wait: third.opened };
    yield " and no further";
  },
  async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    await client.sendMessage({ sessionId, content: "Go" });
    await watch.next("llm:chunk", (event) => event.content === "this");
    assert.deepEqual(await client.cancel(sessionId), { ok: true, cancelled: true, persisted: "partial_assistant" });
    assert.equal((await watch.next("run:complete")).finishReason, "cancelled");
    const messages = await all(client.messages(sessionId));
    assert.deepEqual([text(messages.at(-1)), messages.at(-1)?.interrupted], ["As far as this", "cancelled"]);
    assert.deepEqual(await client.cancel(sessionId), { ok: true, cancelled: false, persisted: null });
    const resumed = await client.resume(sessionId);
    assert.deepEqual([resumed.resumed, typeof resumed.reason], [false, "string"]);
    third.open();
    await watch.stop();
  },
);

served(
  "a tool that is cancelled in its middle has a result",
  function* () {
    yield { call: "bash", args: { command: "echo begun; sleep 60" } };
  },
  async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    await client.sendMessage({ sessionId, content: "Go" });
    assert.equal((await watch.next("tool:output")).text, "begun\n");
    assert.equal((await client.sessions.get(sessionId)).status, "executing_tools");
    assert.equal((await client.cancel(sessionId)).persisted, "tools_in_progress");
    assert.equal((await watch.next("llm:tool-result")).status, "cancelled");
    await watch.next("run:complete");
    const messages = await all(client.messages(sessionId));
    assert.equal(messages.find((message) => message.toolCalls)?.toolCalls?.[0]?.status, "cancelled");
    await watch.stop();
  },
  ALLOW_BASH,
);

served("messages are paged forwards and backwards", (request) => [`Answer to ${newest(request)}`], async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  for (const question of ["a", "b", "c", "d"]) await all(client.ask(sessionId, question));
  const forwards = await all(client.messages(sessionId, { pageSize: 3 }));
  assert.equal(forwards.length, 8);
  assert.deepEqual(forwards.slice(0, 2).map(text), ["a", "Answer to a"]);
  const backwards = await all(client.messages(sessionId, { before: Infinity, pageSize: 3 }));
  assert.deepEqual(backwards.reverse(), forwards);
  const rest = await all(client.messages(sessionId, { after: forwards[4]?.seq ?? 0, pageSize: 2 }));
  assert.deepEqual(rest, forwards.slice(5));
});

served("sessions are listed, renamed, forked, exported and deleted", greeting, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create({ title: "One" });
  await all(client.ask(sessionId, "Hi"));
  assert.equal((await client.sessions.rename(sessionId, "Two")).title, "Two");
  const fork = await client.sessions.fork(sessionId);
  assert.deepEqual(fork.forkedFrom, { sessionId, atSeq: (await client.sessions.get(sessionId)).lastSeq });
  assert.deepEqual((await client.sessions.list()).map((session) => session.id).sort(), [fork.id, sessionId].sort());
  assert.equal((await client.sessions.list({ limit: 1 })).length, 1);
  const lines = (await client.sessions.export(sessionId)).trim().split("\n");
  assert.ok(lines.map((line) => JSON.parse(line) as object).length > 3);
  assert.match(await client.sessions.export(sessionId, { format: "markdown" }), /wörld/);
  assert.deepEqual(await client.sessions.delete(sessionId), { ok: true, id: sessionId });
  await assert.rejects(client.sessions.get(sessionId), { status: 404 });
  assert.equal((await all(client.messages(fork.id))).length, 2);
});

served("content is uploaded, sent and downloaded", greeting, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const png = Uint8Array.from(Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64"));
  const stored = await client.blobs.upload(sessionId, png, { name: "dot.png", mediaType: "image/png" });
  assert.deepEqual([stored.bytes, stored.mediaType, stored.name, stored.width], [png.length, "image/png", "dot.png", 1]);
  await all(client.ask(sessionId, [{ type: "text", text: "What is it?" }, stored.part]));
  const back = await client.blobs.download(sessionId, stored.hash);
  assert.equal(back.type, "image/png");
  assert.deepEqual(new Uint8Array(await back.arrayBuffer()), png);
  const [asked] = await all(client.messages(sessionId));
  const image = asked?.parts[1];
  assert.ok(image?.type === "image" && image.blob.hash === stored.hash);
});
