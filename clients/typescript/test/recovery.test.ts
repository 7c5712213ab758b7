import assert from "node:assert/strict";
import type { LonghaulEvent, LonghaulError } from "../src/index.js";
import { pause } from "../src/pause.js";
import { Gate, newest } from "./model.js";
import { random } from "./random.js";
import { served, until, Watch, wholeLog, World } from "./world.js";

const LONG = Array.from({ length: 40 }, (_, at) => `word ${at} 😀 `);

/** Says much, and waits in its middle for a gate that is kept shut by the one who asks to. */
function* talking(request: Parameters<typeof newest>[0]) {
  yield* LONG.slice(0, 20);
  if (newest(request).includes("wait")) yield { wait: new Gate().opened };
  yield* LONG.slice(20);
}

function strings(events: LonghaulEvent[]): string[] {
  return events.map((event) => JSON.stringify(event));
}

async function toldAsMuch(watch: Watch, world: World, sessionId: string): Promise<void> {
  const { lastSeq } = await world.client().sessions.get(sessionId);
  await until(() => watch.stored().some((event) => (event.seq ?? 0) >= lastSeq));
}

served("a stream goes on after the server was killed in mid-answer: nothing is lost, nothing comes twice", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId, 0);
  for await (const _ of client.ask(sessionId, "talk")) void _;
  await watch.next("run:complete");

  await client.sendMessage({ sessionId, content: "talk and wait" });
  await watch.next("llm:chunk", (event) => event.content === LONG[19]);
  const queued = await client.sendMessage({ sessionId, content: "talk again" });
  assert.ok(queued.queued);
  // What was said is kept a tenth of a second later.
  await pause(500);
  await world.kill();
  world.model.script = () => LONG;
  await world.serve();

  const cut = await watch.next("message:added", (event) => event.source === "model");
  const kept = cut.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  assert.ok(kept.length > 0 && LONG.slice(0, 20).join("").startsWith(kept), kept);
  assert.equal((await watch.next("llm:error")).code, "interrupted");
  assert.equal((await watch.next("run:complete")).finishReason, "error");
  const snapshot = await watch.next("queue:snapshot");
  assert.deepEqual(snapshot.entries.map((entry) => entry.id), [queued.id]);

  assert.equal((await client.resume(sessionId)).resumed, true);
  assert.equal((await watch.next("run:complete")).finishReason, "stop");
  await toldAsMuch(watch, world, sessionId);
  assert.deepEqual(strings(watch.stored()), strings(await wholeLog(client, sessionId)));
  await watch.stop();
});

served("a client that is cut off again and again hears every stored event once", talking, async (world) => {
  const next = random(44);
  let cuts = 0;
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const response = await globalThis.fetch(input, init);
    if (!String(input).endsWith("/events") && !String(input).includes("/events?")) return response;
    let left = Math.floor(next() * 6_000);
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        controller.enqueue(bytes.subarray(0, left));
        left -= bytes.length;
        if (left > 0) return;
        cuts += 1;
        controller.error(new TypeError("cut"));
      },
    });
    return new Response(response.body?.pipeThrough(cut) ?? null, response);
  };
  const client = world.client({ fetch, stream: { baseMs: 1, maxMs: 2 } });
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId, 0);
  for (let turn = 0; turn < 6; turn += 1) {
    let said = "";
    for await (const text of client.ask(sessionId, `talk ${turn}`)) said += text;
    assert.equal(said, LONG.join(""));
  }
  await toldAsMuch(watch, world, sessionId);
  await watch.stop();
  assert.deepEqual(strings(watch.stored()), strings(await wholeLog(world.client(), sessionId)));
  assert.ok(cuts > 10, `only ${cuts} cuts`);
});

served("who comes back in mid-answer is shown what was said meanwhile", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId, 0);
  await client.sendMessage({ sessionId, content: "talk and wait" });
  await watch.next("llm:chunk", (event) => event.content === LONG[19]);
  const { lastSeq } = await client.sessions.get(sessionId);
  const late = new Watch(client, sessionId, lastSeq);
  const snapshot = await late.next("llm:snapshot");
  assert.equal(snapshot.parts.map((part) => part.text).join(""), LONG.slice(0, 20).join(""));
  assert.equal(snapshot.offset, Array.from(LONG.slice(0, 20).join("")).length);
  await Promise.all([watch.stop(), late.stop()]);
  await client.cancel(sessionId);
});

served("asking tells of a run that failed: the server was killed", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  let said = "";
  const work = (async () => {
    for await (const text of client.ask(sessionId, "talk and wait")) {
      said += text;
      if (text !== LONG[19]) continue;
      await world.kill();
      await world.serve();
    }
  })();
  await assert.rejects(work, (error: LonghaulError) => error.code === "interrupted" && error.status === 0);
  assert.equal(said, LONG.slice(0, 20).join(""));
});

served("asking a busy session waits for its turn, and tells if there will be none", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId, 0);
  const begin = async () => {
    await client.sendMessage({ sessionId, content: "talk and wait" });
    await watch.next("llm:chunk", (event) => event.content === LONG[19]);
  };
  const ask = async () => {
    let said = "";
    for await (const text of client.ask(sessionId, "talk")) said += text;
    return said;
  };
  await begin();
  const removed = assert.rejects(ask(), { code: "not-taken" });
  const { id } = await watch.next("message:queued", (event) => event.position === 1);
  await client.queue.remove(id);
  await removed;

  const waiting = assert.rejects(ask(), { code: "not-taken" });
  await watch.next("message:queued");
  await client.cancel(sessionId);
  await waiting;

  // The session is at rest and one message waits: the next one goes along with it.
  assert.equal(await ask(), LONG.join(""));
  await watch.stop();
});

served("asking tells that the message was removed while nobody listened", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId, 0);
  await client.sendMessage({ sessionId, content: "talk and wait" });
  await watch.next("llm:chunk", (event) => event.content === LONG[19]);
  const [back, sent] = [new Gate(), new Gate()];
  let connections = 0;
  const fetch: typeof globalThis.fetch = async (input, init) => {
    if (String(input).includes("/events") && (connections += 1) > 1) await back.opened;
    const response = await globalThis.fetch(input, init);
    if (init?.method === "POST") setTimeout(sent.open, 1_000);
    return response;
  };
  const asking = assert.rejects(
    (async () => {
      for await (const _ of world.client({ fetch }).ask(sessionId, "talk")) void _;
    })(),
    { code: "not-taken", detail: /removed/ },
  );
  const { id } = await watch.next("message:queued", (event) => event.position === 1);
  await sent.opened;
  await world.kill();
  await world.serve();
  await client.queue.remove(id, { sessionId });
  back.open();
  await asking;
  await watch.stop();
});

served("a stream ends when its session is deleted", talking, async (world) => {
  const client = world.client();
  const { id: sessionId } = await client.sessions.create();
  const watch = new Watch(client, sessionId);
  await watch.next("queue:snapshot");
  await client.sessions.delete(sessionId);
  await assert.rejects(watch.next("run:complete"), { code: "not-found", status: 404 });
});
