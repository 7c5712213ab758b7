import assert from "node:assert/strict";
import { test } from "node:test";
import { Longhaul, LonghaulError } from "../src/index.js";
import { retryAfter } from "../src/error.js";
import { delay } from "../src/pause.js";

type Reply = () => Response | Promise<Response>;

/** A server that gives these answers, one after another. */
function answering(...replies: Reply[]): { client: Longhaul; asked: Request[] } {
  const asked: Request[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    asked.push(new Request(input, init));
    const reply = replies[Math.min(asked.length, replies.length) - 1];
    if (!reply) throw new Error("nothing to answer");
    return reply();
  };
  const client = new Longhaul({ baseUrl: "http://box.lan/longhaul", token: "secret", fetch, retry: { baseMs: 1, maxMs: 2 } });
  return { client, asked };
}

const done = () => Response.json({ ok: true });
const lost = () => Promise.reject(new TypeError("fetch failed", { cause: new Error("read ECONNRESET") }));
const problem = (status: number, code: string, headers: HeadersInit = {}) => () =>
  new Response(JSON.stringify({ type: `urn:longhaul:problem:${code}`, title: "T", status, detail: "No.", code, tokens: 7 }), {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
  });

async function refused(work: Promise<unknown>): Promise<LonghaulError> {
  const error = await work.then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof LonghaulError, String(error));
  return error;
}

test("a request carries the token, its path below the base, and JSON", async () => {
  const { client, asked } = answering(done);
  await client.sessions.rename("a/b c", "T");
  assert.equal(asked[0]?.url, "http://box.lan/longhaul/api/sessions/a%2Fb%20c");
  assert.equal(asked[0]?.method, "PATCH");
  assert.equal(asked[0]?.headers.get("authorization"), "Bearer secret");
  assert.deepEqual(await asked[0]?.json(), { title: "T" });
});

test("an id that would lead to another route is refused", async () => {
  const { client, asked } = answering(done);
  for (const id of ["", ".", ".."]) await assert.rejects(async () => client.sessions.delete(id), TypeError);
  assert.equal(asked.length, 0);
});

test("a problem document becomes an error that programs can read", async () => {
  const { client, asked } = answering(problem(409, "context-overflow"));
  const error = await refused(client.undo("s", "e1"));
  assert.deepEqual([error.code, error.status, error.detail, error.title], ["context-overflow", 409, "No.", "T"]);
  assert.equal(error.problem["tokens"], 7);
  assert.equal(error.message, "No. (context-overflow, 409)");
  assert.equal(asked.length, 1, "it is not repeated");
});

test("an answer of somebody else is told apart", async () => {
  const html = () => new Response("<h1>Bad gateway</h1>", { status: 502 });
  const error = await refused(answering(html).client.sessions.get("s"));
  assert.deepEqual([error.code, error.status], ["unexpected-answer", 502]);
  const text = await refused(answering(() => new Response("hello")).client.sessions.get("s"));
  assert.equal(text.code, "unexpected-answer");
});

test("work is repeated under one key, and each call has its own", async () => {
  const { client, asked } = answering(lost, problem(503, "storage", { "retry-after": "0" }), problem(429, "queue-full", { "retry-after": "0" }), done);
  await client.sendMessage({ sessionId: "s", content: "hi" });
  const keys = asked.map((request) => request.headers.get("idempotency-key"));
  assert.equal(keys.length, 4);
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0] ?? "", /^[0-9a-f]{32}$/);
  await client.sendMessage({ sessionId: "s", content: "hi" });
  assert.notEqual(asked[4]?.headers.get("idempotency-key"), keys[0]);
});

test("every method that starts work has a key, and takes one", async () => {
  const { client, asked } = answering(done);
  const own = { idempotencyKey: "mine" };
  const calls = (options?: { idempotencyKey: string }) => [
    client.sendMessage({ content: "hi" }, options),
    client.sessions.create(options),
    client.sessions.fork("s", options),
    client.cancel("s", options),
    client.resume("s", options),
    client.compact("s", options),
    client.undo("s", "e", options),
    client.release("s", "e", options),
    client.approvals.decide("a", "allow", options),
  ];
  await Promise.all(calls());
  assert.equal(new Set(asked.map((request) => request.headers.get("idempotency-key"))).size, 9);
  await Promise.all(calls(own));
  assert.ok(asked.slice(9).every((request) => request.headers.get("idempotency-key") === "mine"));
  for (const request of asked) {
    assert.equal(request.method, "POST");
    const body = await request.text();
    assert.ok(!body.includes("mine"), `the key is no part of the body: ${body}`);
  }
});

test("what may not be done twice is sent once", async () => {
  const { client, asked } = answering(lost, done);
  const error = await refused(client.request({ method: "POST", path: ["api", "message"], json: {} }));
  assert.deepEqual([error.code, error.status], ["unreachable", 0]);
  assert.match(error.detail, /ECONNRESET/);
  assert.equal(asked.length, 1);
});

test("an answer that breaks off is asked for again", async () => {
  const broken = () =>
    new Response(new ReadableStream({ pull: (controller) => controller.error(new TypeError("terminated")) }));
  const { client, asked } = answering(broken, done);
  await client.context("s");
  assert.equal(asked.length, 2);
});

test("attempts end, and with them what is waited for", async () => {
  const { client, asked } = answering(lost);
  assert.equal((await refused(client.sessions.get("s"))).code, "unreachable");
  assert.equal(asked.length, 4);
  const busy = answering(problem(429, "rate-limit-exceeded", { "retry-after": "3600" }));
  const error = await refused(busy.client.sessions.get("s"));
  assert.equal(error.retryAfterMs, 3_600_000);
  assert.equal(busy.asked.length, 1, "an hour is not waited for");
});

test("Retry-After is kept", async () => {
  const { client } = answering(problem(503, "storage", { "retry-after": "1" }), done);
  const begun = performance.now();
  await client.sessions.get("s");
  assert.ok(performance.now() - begun >= 990);
  assert.equal(retryAfter("2", 0), 2_000);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:05 GMT", 2_000), 3_000);
  assert.equal(retryAfter("Thu, 01 Jan 1970 00:00:05 GMT", 9_000), 0);
  assert.equal(retryAfter("soon", 0), undefined);
  assert.equal(retryAfter(null, 0), undefined);
});

test("pauses double up to a bound, at least half of it each", () => {
  const backoff = { baseMs: 100, maxMs: 1_000 };
  assert.deepEqual([1, 2, 3, 4, 5, 50].map((failures) => delay(backoff, failures, 0.999999)).map(Math.round), [100, 200, 400, 800, 1_000, 1_000]);
  assert.equal(delay(backoff, 2, 0), 100);
});

test("a signal ends the waiting with its reason", async () => {
  const { client, asked } = answering(problem(503, "storage", { "retry-after": "20" }));
  const stop = new AbortController();
  const waiting = client.sessions.get("s", { signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 20);
  await assert.rejects(waiting, /enough/);
  assert.equal(asked.length, 1);
  await assert.rejects(client.sessions.get("s", { signal: AbortSignal.abort(new Error("before")) }), /before/);
});

test("a session that is gone after a lost answer was deleted", async () => {
  const gone = problem(404, "not-found");
  assert.deepEqual(await answering(lost, gone).client.sessions.delete("s"), { ok: true, id: "s" });
  assert.equal((await refused(answering(gone).client.sessions.delete("s"))).code, "not-found");
});

test("content is uploaded as it is, with its type", async () => {
  const { client, asked } = answering(lost, done);
  await client.blobs.upload("s", new Blob(["x"], { type: "image/png" }), { name: "a b.png" });
  assert.equal(asked.length, 2, "it is named by its hash: it may be sent again");
  assert.equal(asked[1]?.headers.get("content-type"), "image/png");
  assert.ok(asked[1]?.url.endsWith("/api/sessions/s/blobs?name=a+b.png"));
  await client.blobs.upload("s", Uint8Array.from([1, 2]), { mediaType: "application/pdf" });
  assert.equal(asked[2]?.headers.get("content-type"), "application/pdf");
});
