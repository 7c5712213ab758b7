import assert from "node:assert/strict";
import { test } from "node:test";
import type { LonghaulEvent } from "../src/index.js";
import { Spoken } from "../src/spoken.js";

function chunk(offset: number, content: string, messageId = "m"): LonghaulEvent {
  return { name: "llm:chunk", sessionId: "s", stepId: "t", messageId, chunkType: "text", content, offset };
}

function snapshot(text: string): LonghaulEvent {
  const parts = [{ type: "reasoning" as const, text: "hm" }, { type: "text" as const, text }];
  return { name: "llm:snapshot", sessionId: "s", stepId: "t", messageId: "m", parts, offset: 0, reasoningOffset: 2 };
}

function added(text: string, more: { messageId?: string; paused?: true; continues?: string } = {}): LonghaulEvent {
  const parts = [{ type: "text" as const, text }];
  return { name: "message:added", sessionId: "s", seq: 1, messageId: "m", role: "assistant", source: "model", parts, ...more };
}

function said(events: LonghaulEvent[]): string {
  const spoken = new Spoken();
  return events.map((event) => spoken.more(event)).join("");
}

test("chunks are given once, whatever comes again", () => {
  assert.equal(said([chunk(0, "ab"), chunk(2, "cd"), added("abcd")]), "abcd");
  assert.equal(said([chunk(0, "ab"), snapshot("abcd"), chunk(4, "e"), added("abcde")]), "abcde");
  assert.equal(said([chunk(0, "ab"), chunk(1, "bc"), chunk(1, "b")]), "abc");
});

test("what was missed is given when the answer is stored", () => {
  assert.equal(said([chunk(0, "ab"), chunk(4, "ef"), added("abcdef")]), "abcdef");
  assert.equal(said([added("abc")]), "abc");
});

test("offsets count code points", () => {
  assert.equal(said([chunk(0, "a😀"), chunk(2, "ü"), snapshot("a😀ü😀b"), added("a😀ü😀b!")]), "a😀ü😀b!");
});

test("an answer that was paused goes on", () => {
  const first = added("one ", { paused: true });
  const second = added("two ", { messageId: "m2", continues: "m", paused: true });
  const third = added("three", { messageId: "m3", continues: "m" });
  assert.equal(said([first, second, third]), "one two three");
  assert.equal(said([chunk(0, "one "), first, chunk(4, "two "), second, chunk(8, "th"), third]), "one two three");
  assert.equal(said([chunk(0, "one "), first, snapshot("one two "), second, third]), "one two three");
});

test("reasoning, and what others said, is not the answer", () => {
  const typed = { ...added("hello"), source: "typed" } as LonghaulEvent;
  const reasoning = { ...chunk(0, "hm"), chunkType: "reasoning" } as LonghaulEvent;
  assert.equal(said([typed, reasoning, chunk(0, "yes")]), "yes");
});
