import assert from "node:assert/strict";
import { test } from "node:test";
import { Longhaul, LonghaulError, type LonghaulEvent } from "../src/index.js";
import { random } from "./random.js";

const utf8 = new TextEncoder();
const silence = new Promise<never>(() => {});

/** What a connection does: gives these texts, then ends, breaks off or falls silent. */
interface Connection {
  texts: string[];
  then?: "end" | "break" | "silence";
}

function body({ texts, then = "end" }: Connection, signal: AbortSignal | null | undefined): ReadableStream<Uint8Array> {
  const rest = [...texts];
  return new ReadableStream({
    start: (controller) => signal?.addEventListener("abort", () => controller.error(signal.reason)),
    pull(controller) {
      const text = rest.shift();
      if (text !== undefined) controller.enqueue(utf8.encode(text));
      else if (then === "end") controller.close();
      else if (then === "break") controller.error(new TypeError("terminated"));
      else return silence;
      return undefined;
    },
  });
}

function streaming(answer: (request: Request, number: number) => Connection | Response, heartbeatTimeoutMs = 300) {
  const asked: Request[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    init?.signal?.throwIfAborted();
    const request = new Request(input, init);
    asked.push(request);
    const given = answer(request, asked.length);
    return given instanceof Response ? given : new Response(body(given, init?.signal), { headers: { "content-type": "text/event-stream" } });
  };
  const stream = { baseMs: 1, maxMs: 2, heartbeatTimeoutMs };
  const client = new Longhaul({ baseUrl: "http://box.lan", fetch, retry: { baseMs: 1, maxMs: 2 }, stream });
  return { client, asked };
}

function frame(event: object, id?: number | string): string {
  const { name } = event as { name: string };
  return `event: ${name}\ndata: ${JSON.stringify(event)}\n${id === undefined ? "" : `id: ${id}\n`}\n`;
}

const stored = (seq: number, part: number) => ({ name: "message:edited", sessionId: "s", seq, id: `${seq}.${part}` });
const last = (seq: number) => ({ name: "run:complete", sessionId: "s", seq });
const snapshot = (position: number) => frame({ name: "queue:snapshot", sessionId: "s", entries: [] }, position);
const problem = (status: number, code: string) =>
  Response.json({ code, detail: "No.", status }, { status, headers: { "content-type": "application/problem+json" } });

/** A log in which each event is told in one to four frames, with ids of their own or only for the last. */
function log(length: number, next: () => number): { frames: string[]; seq: number }[] {
  const hasParts = next() < 0.5;
  return Array.from({ length }, (_, at) => {
    const seq = at + 1;
    const before = Array.from({ length: Math.floor(next() * 4) }, (_, part) => frame(stored(seq, part), hasParts ? `${seq}.${part + 1}` : undefined));
    return { seq, frames: [...before, frame(last(seq), seq)] };
  });
}

/** The position that a request goes on from. */
function position(request: Request): number {
  const after = new URL(request.url).searchParams.get("after");
  return Number(request.headers.get("last-event-id") ?? after);
}

async function take(events: AsyncIterable<LonghaulEvent>, until: (event: LonghaulEvent) => boolean): Promise<LonghaulEvent[]> {
  const taken: LonghaulEvent[] = [];
  for await (const event of events) {
    taken.push(event);
    if (until(event)) break;
  }
  return taken;
}

test("each stored event comes once and in order, wherever the stream is cut", async () => {
  const next = random(8);
  for (let round = 0; round < 60; round += 1) {
    const all = log(12, next);
    const { client, asked } = streaming((request) => {
      const rest = all.filter((event) => event.seq > position(request)).flatMap((event) => event.frames);
      const text = `: hello\n\n${rest.join("")}${snapshot(12)}`;
      const cut = Math.floor(next() * Math.min(text.length, 900));
      return { texts: [text.slice(0, cut)], then: next() < 0.5 ? "end" : "break" };
    });
    const taken = await take(client.events("s", { after: 0 }), (event) => event.seq === 12 && event.name === "run:complete");
    const expected = all.flatMap((event) => event.frames).map((text) => /^data: (.*)$/m.exec(text)?.[1]);
    assert.deepEqual(taken.filter((event) => event.seq !== undefined).map((event) => JSON.stringify(event)), expected);
    assert.ok(asked.length > 1);
  }
});

test("the first request names the position in its address, later ones in Last-Event-ID", async () => {
  const { client, asked } = streaming((_, number) => ({ texts: number === 1 ? [frame(last(5), 5)] : [frame(last(6), 6)] }));
  await take(client.events("s", { after: 4 }), (event) => event.seq === 6);
  assert.deepEqual(asked.map((request) => new URL(request.url).search), ["?after=4", ""]);
  assert.deepEqual(asked.map((request) => request.headers.get("last-event-id")), [null, "5"]);
});

test("a stream that begins live goes on from where it began", async () => {
  const { client, asked } = streaming((_, number) => ({ texts: number === 1 ? [snapshot(41)] : [frame(last(42), 42)] }));
  await take(client.events("s"), (event) => event.seq === 42);
  assert.deepEqual(asked.map((request) => new URL(request.url).search), ["", ""]);
  assert.equal(asked[1]?.headers.get("last-event-id"), "41");
});

test("a gap is passed on, and what comes behind it is given", async () => {
  const gap = (from: number, to: number) => frame({ name: "stream:gap", sessionId: "s", from, to });
  const unreadable = streaming(() => ({ texts: [frame(last(3), 3), gap(4, 8), frame(last(8), 8), frame(last(9), 9)] }));
  const seen = await take(unreadable.client.events("s", { after: 2 }), (event) => event.seq === 9);
  assert.deepEqual(seen.map((event) => event.seq ?? event.name), [3, "stream:gap", 9]);

  // The log was put back to an earlier state.
  const shorter = streaming((_, number) =>
    number === 1 ? { texts: [frame(last(20), 20)] } : { texts: [gap(7, 20), frame(last(8), 8)] },
  );
  const restored = await take(shorter.client.events("s", { after: 19 }), (event) => event.seq === 8);
  assert.deepEqual(restored.map((event) => event.seq ?? event.name), [20, "stream:gap", 8]);
});

test("a stream that falls silent is opened again, one that beats is not", async () => {
  const interruptions: LonghaulError[] = [];
  const { client, asked } = streaming((_, number) => ({ texts: [frame(last(number), number)], then: "silence" }));
  await take(client.events("s", { after: 0, onInterruption: (error) => interruptions.push(error) }), (event) => event.seq === 2);
  assert.equal(asked.length, 2);
  assert.deepEqual(interruptions.map((error) => error.code), ["unreachable"]);

  let beat = 0;
  const beats = streaming(() => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 400));
        beat += 1;
        controller.enqueue(utf8.encode(beat < 7 ? ":\n\n" : frame(last(1), 1)));
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }, 2_000);
  await take(beats.client.events("s", { after: 0 }), (event) => event.seq === 1);
  assert.equal(beats.asked.length, 1);
});

test("who is slow to take events does not find the stream cut", async () => {
  const { client, asked } = streaming(() => ({ texts: [frame(last(1), 1), frame(last(2), 2)], then: "silence" }));
  const seen: (number | undefined)[] = [];
  for await (const event of client.events("s", { after: 0 })) {
    seen.push(event.seq);
    if (event.seq === 2) break;
    await new Promise((resolve) => setTimeout(resolve, 450));
  }
  assert.deepEqual([seen, asked.length], [[1, 2], 1]);
});

test("a stream that has begun comes back through any outage; what waiting does not change ends it", async () => {
  const { client, asked } = streaming((_, number) => {
    if (number === 1) return { texts: [frame(last(1), 1)] };
    if (number < 9) return number % 2 ? problem(503, "interrupted") : new Response("bad gateway", { status: 502 });
    return number === 9 ? { texts: [frame(last(2), 2)] } : problem(404, "not-found");
  });
  const seen: unknown[] = [];
  const work = (async () => {
    for await (const event of client.events("s", { after: 0 })) seen.push(event.seq);
  })();
  await assert.rejects(work, (error: LonghaulError) => error.code === "not-found");
  assert.deepEqual([seen, asked.length], [[1, 2], 10]);
});

test("one that never begins is a request like others", async () => {
  const refused = streaming(() => problem(401, "auth"));
  await assert.rejects(refused.client.events("s").next(), (error: LonghaulError) => error.status === 401);
  assert.equal(refused.asked.length, 1);
  const busy = streaming(() => problem(503, "interrupted"));
  await assert.rejects(busy.client.events("s").next(), (error: LonghaulError) => error.status === 503);
  assert.equal(busy.asked.length, 4);
  const page = streaming(() => new Response("<html>", { headers: { "content-type": "text/html" } }));
  await assert.rejects(page.client.events("s").next(), (error: LonghaulError) => error.code === "unexpected-answer");
});

test("a signal ends the stream with its reason, while it waits and between events", async () => {
  const stop = new AbortController();
  const { client } = streaming(() => ({ texts: [frame(last(1), 1) + frame(last(2), 2)], then: "silence" }));
  const events = client.events("s", { after: 0, signal: stop.signal });
  assert.equal((await events.next()).value.seq, 1);
  stop.abort(new Error("enough"));
  await assert.rejects(events.next(), /enough/);

  const later = new AbortController();
  const silent = streaming(() => ({ texts: [], then: "silence" })).client.events("s", { signal: later.signal });
  setTimeout(() => later.abort(new Error("later")), 10);
  await assert.rejects(silent.next(), /later/);
});

test("leaving the loop closes the connection", async () => {
  let isClosed = false;
  const { client } = streaming(() => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(utf8.encode(frame(last(1), 1))),
      cancel: () => void (isClosed = true),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  });
  await take(client.events("s", { after: 0 }), () => true);
  assert.ok(isClosed);
});
