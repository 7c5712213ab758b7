import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoff, sseParser } from '../../web/js/net/sse.js';

const STREAM = ': hello\n\nid: 7\nevent: llm:chunk\ndata: {"a":1}\n\ndata: x\ndata: y\n\nid: 8\n\n:\n\n';

test('frames come out the same however the text is cut', () => {
  const whole = sseParser()(STREAM);
  assert.deepEqual(whole, [
    { event: 'llm:chunk', data: '{"a":1}', id: '7' }, { event: 'message', data: 'x\ny' }, { event: 'message', data: '', id: '8' },
  ]);
  for (let size = 1; size < 12; size += 1) {
    const parse = sseParser();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...parse(STREAM.slice(at, at + size)));
    assert.deepEqual(found, whole, `in pieces of ${size}`);
  }
});

test('pauses grow and end', () => {
  const pauses = [0, 1, 2, 3, 10, 50].map((attempt) => backoff(attempt, 0.5));
  assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 15_000, 15_000]);
  assert.ok(backoff(0, 0) < backoff(0, 1));
});
