import assert from "node:assert/strict";
import { test } from "node:test";
import { Longhaul, LonghaulError } from "../src/index.js";
import { Gate } from "./model.js";
import { served, until, Watch } from "./world.js";

/** Loses the answers to the first requests that `fits`: they were done, and nobody was told. */
function losing(fits: (url: string, init?: RequestInit) => boolean, times = 1): { fetch: typeof fetch; lost: () => number } {
  let lost = 0;
  const lossy: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (lost >= times || !fits(String(input), init)) return response;
    lost += 1;
    await response.arrayBuffer();
    throw new TypeError("fetch failed", { cause: new Error("read ECONNRESET") });
  };
  return { fetch: lossy, lost: () => lost };
}

const isWork = (_: string, init?: RequestInit) => init?.method === "POST";

served("work whose answer was lost is not done twice", () => ["Yes."], async (world) => {
  const { fetch, lost } = losing(isWork, 3);
  const client = world.client({ fetch });
  const { id: sessionId } = await client.sessions.create({ title: "Once" });
  assert.equal(lost(), 3);
  assert.equal((await client.sessions.list()).length, 1);

  const again = losing(isWork, 2);
  const sent = await world.client({ fetch: again.fetch }).sendMessage({ sessionId, content: "once" });
  assert.equal(again.lost(), 2);
  await until(async () => (await client.sessions.get(sessionId)).status === "idle");
  const { messages } = await client.messagesPage(sessionId);
  assert.deepEqual(messages.map((message) => message.role), ["user", "assistant"]);
  assert.equal(messages[0]?.id, sent.queued ? sent.id : sent.messageId);

  const forking = losing(isWork);
  await world.client({ fetch: forking.fetch }).sessions.fork(sessionId);
  assert.equal(forking.lost(), 1);
  assert.equal((await client.sessions.list()).length, 2);

  const deleting = losing((_, init) => init?.method === "DELETE");
  assert.deepEqual(await world.client({ fetch: deleting.fetch }).sessions.delete(sessionId), { ok: true, id: sessionId });
  assert.equal(deleting.lost(), 1);

  const unkeyed = losing(isWork);
  const bare = world.client({ fetch: unkeyed.fetch }).request({ method: "POST", path: ["api", "sessions"], json: {} });
  await assert.rejects(bare, { code: "unreachable" });
  assert.equal((await client.sessions.list()).length, 2, "it was sent once");
});

served("a key that was used for something else is refused", () => ["Yes."], async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const own = { idempotencyKey: "mine" };
  const first = await client.sendMessage({ sessionId, content: "one" }, own);
  assert.deepEqual(await client.sendMessage({ sessionId, content: "one" }, own), first);
  await assert.rejects(client.sendMessage({ sessionId, content: "two" }, own), { status: 422, code: "invalid-request" });
});

const gate = new Gate();
served(
  "what does not fit is refused with a code",
  function* () {
    yield "Wait. ";
    yield { wait: gate.opened };
  },
  async (world) => {
    const client = world.client();
    const { id: sessionId } = await client.sessions.create();
    const watch = new Watch(client, sessionId, 0);
    await client.sendMessage({ sessionId, content: "begin" });
    await watch.next("llm:chunk");

    const conflict = await client.compact(sessionId).catch((error: unknown) => error);
    assert.ok(conflict instanceof LonghaulError);
    assert.deepEqual([conflict.status, conflict.code, conflict.title], [409, "conflict", "Conflict"]);
    await assert.rejects(client.sessions.fork(sessionId, { atSeq: 3 }), { status: 409, code: "conflict" });
    await assert.rejects(client.sessions.get("nobody"), { status: 404, code: "not-found" });
    await assert.rejects(client.queue.edit("none", "x", { sessionId }), { status: 404, code: "not-found" });
    await assert.rejects(client.sendMessage({ sessionId, content: " " }), { status: 400, code: "invalid-request" });
    await assert.rejects(client.sessions.rename(sessionId, ""), { status: 400, code: "invalid-request" });
    await assert.rejects(client.request({ method: "PUT", path: ["api", "sessions"] }), { status: 405 });

    await client.sendMessage({ sessionId, content: "waits" });
    const full = await world.client({ retry: { attempts: 1 } }).sendMessage({ sessionId, content: "too many" }).catch((error: unknown) => error);
    assert.ok(full instanceof LonghaulError);
    assert.deepEqual([full.status, full.code, full.retryAfterMs], [429, "queue-full", 5_000]);
    gate.open();
    await watch.stop();
  },
  "run:\n  queueLimit: 1",
);

served("without the token nothing is answered", () => ["Yes."], async (world) => {
  const client = new Longhaul({ baseUrl: world.url, token: "wrong" });
  await assert.rejects(client.sessions.list(), { status: 401, code: "auth" });
  await assert.rejects(client.events("any").next(), { status: 401, code: "auth" });
});

test("where there is no server, it is said", async () => {
  const client = new Longhaul({ baseUrl: "http://127.0.0.1:9", retry: { attempts: 2, baseMs: 1 } });
  await assert.rejects(client.sessions.list(), { status: 0, code: "unreachable", detail: /ECONNREFUSED|bad port/ });
});
