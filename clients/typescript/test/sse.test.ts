import assert from "node:assert/strict";
import { test } from "node:test";
import { type SseFrame, SseParser } from "../src/sse.js";
import { pieces, random } from "./random.js";

const utf8 = new TextEncoder();

function frames(text: string): SseFrame[] {
  return new SseParser().push(utf8.encode(text));
}

function data(text: string): string[] {
  return frames(text).map((frame) => frame.data);
}

test("lines end with CR, LF or CRLF", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const text = ["event: a", "data: one", "", "data: two", "", ""].join(end);
    assert.deepEqual(frames(text), [
      { event: "a", data: "one", lastEventId: "" },
      { event: "message", data: "two", lastEventId: "" },
    ]);
  }
  assert.deepEqual(data("data: a\r\rdata: b\n\ndata: c\r\n\r\n"), ["a", "b", "c"]);
});

test("data of several lines is joined, and one space behind the colon is dropped", () => {
  assert.deepEqual(data("data: a\ndata:b\ndata:  c\ndata\n\n"), ["a\nb\n c\n"]);
  assert.deepEqual(data("data\n\ndata\ndata\n\ndata:\n"), ["", "\n"]);
});

test("comments, unknown fields and blocks without data tell nothing", () => {
  assert.deepEqual(data(":\n\n: hello\n\nevent: x\n\nnonsense: y\nDATA: no\n\ndata: yes\n\n"), ["yes"]);
  assert.equal(frames("event: x\n\ndata: y\n\n")[0]?.event, "message");
});

test("a byte order mark is dropped once, at the beginning", () => {
  assert.deepEqual(data("\ufeffdata: a\n\n"), ["a"]);
  assert.deepEqual(data("\ufeff\ufeffdata: a\n\ndata: \ufeffb\n\n"), ["\ufeffb"]);
});

test("the position stays until another is named, also by a block without data", () => {
  const parser = new SseParser();
  const ids = parser.push(utf8.encode("id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\nid: no\0pe\ndata: d\n\nid\ndata: e\n\n"));
  assert.deepEqual(ids.map((frame) => frame.lastEventId), ["1", "1", "2", "2", ""]);
  parser.push(utf8.encode("id: 9\ndata: not ended"));
  assert.equal(parser.lastEventId, "");
});

test("retry takes digits only", () => {
  const parser = new SseParser();
  parser.push(utf8.encode("retry: 1500\n"));
  assert.equal(parser.retryMs, 1500);
  parser.push(utf8.encode("retry: 1e3\nretry: -1\nretry:\n"));
  assert.equal(parser.retryMs, 1500);
});

test("what the stream ends in the middle of is no event", () => {
  assert.deepEqual(data("data: a\n\ndata: b\n"), ["a"]);
  assert.deepEqual(data("data: a\n\ndata: b"), ["a"]);
});

test("bytes that are not UTF-8 become replacement characters", () => {
  const bytes = Uint8Array.from([...utf8.encode("data: a"), 0xff, 0xc3, ...utf8.encode("\n\n")]);
  assert.deepEqual(new SseParser().push(bytes).map((frame) => frame.data), ["a\ufffd\ufffd"]);
});

const WORDS = ["data", "event", "id", "retry", ":", ": ", " ", "x", "ü", "😀", "\u2028", "\ufeff", "7", "\0", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\ndata: ", "\rid: 3", "\r\nevent: y", "\n\ndata:x\r\r"];

/** A reading of the standard that is as plain as can be: the whole text at once, line by line. */
function plainly(text: string): SseFrame[] {
  const found: SseFrame[] = [];
  const lines = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n").replaceAll("\r", "\n").split("\n");
  let [event, buffer, id] = ["", "", ""];
  // What follows the last end of a line is no line.
  for (const line of lines.slice(0, -1)) {
    const [, name = "", value = ""] = /^([^:]*)(?:: ?([^]*))?$/u.exec(line) ?? [];
    if (line === "") {
      if (buffer !== "") found.push({ event: event || "message", data: buffer.slice(0, -1), lastEventId: id });
      [event, buffer] = ["", ""];
    } else if (name === "data") buffer += `${value}\n`;
    else if (name === "event") event = value;
    else if (name === "id" && !value.includes("\0")) id = value;
  }
  return found;
}

test("any stream, cut anywhere, says the same", () => {
  const next = random(20);
  let told = 0;
  for (let round = 0; round < 3_000; round += 1) {
    const words = Array.from({ length: Math.floor(next() * 60) }, () => WORDS[Math.floor(next() * WORDS.length)]);
    const text = words.join("");
    const parser = new SseParser();
    const longest = 1 + Math.floor(next() * 9);
    const found = pieces(utf8.encode(text), next, longest).flatMap((piece) => parser.push(piece));
    assert.deepEqual(found, plainly(text), JSON.stringify({ round, text }));
    told += found.length;
  }
  assert.ok(told > 1_000, `only ${told} events in all streams`);
});
