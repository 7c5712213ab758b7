import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { beside, change, subject } from '../../web/js/text/calls.js';
import { exact, exactChange, exactLines } from '../../web/js/text/exact.js';

const description = JSON.parse(readFileSync(new URL('../../../../docs/visible-text.json', import.meta.url), 'utf8'));

test('the cases of the description are shown as it says', () => {
  assert.ok(description.cases.length > 0);
  for (const { text, lines } of description.cases) assert.deepEqual(exactLines(text), lines, JSON.stringify(text));
});

test('every character that the description names is escaped, and no other', () => {
  const ranges = description.escaped.map((range) => range.split('-').map((point) => parseInt(point, 16)));
  const isDescribed = (point) => ranges.some(([first, last = first]) => first <= point && point <= last);
  for (let point = 0; point <= 0x10ffff; point += 1) {
    if (point === 0x09 || point === 0x0a || point === 0x20) continue;
    const sign = String.fromCodePoint(point);
    const expected = isDescribed(point) ? `\\u{${point.toString(16)}}` : sign;
    if (exact(sign) !== expected) assert.equal(exact(sign), expected, point.toString(16));
  }
});

test('half a character is shown as what it is', () => {
  assert.equal(exact('a\ud800b'), 'a\\u{d800}b');
});

test('a change shows blank lines and characters that hide in it', () => {
  const blank = Array.from({ length: 60 }, () => ({ kind: 'added', text: '' }));
  assert.deepEqual(exactChange([{ kind: 'same', text: 'a' }, ...blank, { kind: 'added', text: 'b\u202e' }, { kind: 'removed', text: '' }]), [
    { kind: 'same', text: 'a' }, { kind: 'added', text: '⏎×60' }, { kind: 'added', text: 'b\\u{202e}' }, { kind: 'removed', text: '' },
  ]);
});

test('the line of a call hides nothing either', () => {
  const argsText = JSON.stringify({ command: `echo\u202e ok${' '.repeat(3_000)}; rm` });
  assert.equal(subject({ name: 'bash', argsText }), 'echo\\u{202e} ok␣×3000; rm');
});

test('what a change does not show of its arguments is shown beside it', () => {
  const others = (name, args) => {
    const call = { name, argsText: JSON.stringify(args) };
    return beside(call, args, change(call));
  };
  assert.deepEqual(others('edit', { path: 'a', old: 'b', new: 'c', description: 'd', replaceAll: true, mode: 'x' }), { mode: 'x' });
  assert.deepEqual(others('write', { path: 'a', content: 'b', old: 1 }), { old: 1 });
  // The tool of an MCP server may mean something else by the same words.
  const foreign = { path: 'a', old: 'b', new: 'c', then: 'rm' };
  assert.deepEqual(others('files__edit', foreign), foreign);
});
