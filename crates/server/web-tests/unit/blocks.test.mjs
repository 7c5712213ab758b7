import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fenced, splitBlocks } from '../../web/js/text/blocks.js';

const TEXT = [
  '# Title', '', 'A paragraph', 'of two lines.', '', '- one', '', '- two', '  more', '', 'After.', '',
  '```rust', 'fn a() {', '', '}', '```', '', '1. x', '', '   y', '', '~~~', '```', '', 'still', '~~~', 'end',
].join('\n');

test('blocks end at blank lines, fences and lists stay whole', () => {
  const { closed, tail } = splitBlocks(TEXT, false);
  assert.deepEqual(closed, [
    '# Title', 'A paragraph\nof two lines.', '- one\n\n- two\n  more', 'After.', '```rust\nfn a() {\n\n}\n```',
    '1. x\n\n   y', '~~~\n```\n\nstill\n~~~\nend',
  ]);
  assert.equal(tail, '');
});

test('a block that is closed never changes while more comes', () => {
  let before = [];
  for (let end = 0; end <= TEXT.length; end += 1) {
    const { closed, tail } = splitBlocks(TEXT.slice(0, end), true);
    assert.deepEqual(closed.slice(0, before.length), before, `after ${end} characters`);
    const shown = [...closed, tail].join('').replace(/\s/g, '');
    assert.equal(shown, TEXT.slice(0, end).replace(/\s/g, ''), `nothing is lost after ${end} characters`);
    before = closed;
  }
});

test('the end closes what is open', () => {
  assert.deepEqual(splitBlocks('a\n\n```\nb', false), { closed: ['a', '```\nb'], tail: '' });
  assert.deepEqual(splitBlocks('a\n\n```\nb', true), { closed: ['a'], tail: '```\nb' });
  assert.deepEqual(splitBlocks('', true), { closed: [], tail: '' });
});

test('code stands without its fence before it is rendered', () => {
  assert.equal(fenced('```rust\nlet a;\n\nlet b;\n```', false), 'let a;\n\nlet b;');
  assert.equal(fenced('~~~\n```\n~~~', false), '```');
  assert.equal(fenced('```\nno end', false), 'no end');
  assert.equal(fenced('```rust\nlet', true), 'let');
  assert.equal(fenced('```ru', true), null, 'what it is called is not known yet');
  assert.equal(fenced('text', false), null);
});
