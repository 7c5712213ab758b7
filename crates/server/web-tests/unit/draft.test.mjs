import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftLines, draftWords } from '../../web/js/text/draft.js';

const words = (line) => draftWords(line).map(({ kind, text }) => (kind === 'text' ? text : `<${kind}>${text}</${kind}>`)).join('');

test('lines of a draft have their form, and a paragraph is one', () => {
  const text = '# A title\nFirst line\nand its rest.\n\n- one\n  goes on\n  - deep\n2. two\n> said\n---\n| a | b |\n```sh\n# no title\n```\nend';
  assert.deepEqual(draftLines(text).map(({ kind, depth, mark, text: said }) => [kind, said, ...(mark ? [mark, depth] : [])]), [
    ['heading', 'A title'], ['text', 'First line and its rest.'], ['text', ''], ['item', 'one goes on', '•', 0], ['item', 'deep', '•', 1], ['item', 'two', '2.', 0],
    ['quote', 'said'], ['rule', ''], ['code', '| a | b |'], ['code', '# no title'], ['text', 'end'],
  ]);
});

test('marked words have their form as soon as they begin, and nothing else loses a sign', () => {
  assert.equal(words('**bold** and `co*de` and *so*'), '<strong>bold</strong> and <code>co*de</code> and <em>so</em>');
  assert.equal(words('it is **not yet'), 'it is <strong>not yet</strong>');
  assert.equal(words('run `cargo te'), 'run <code>cargo te</code>');
  for (const plain of ['2**10 and 3 * 4', 'snake_case_name', 'a * b', 'ends with **', '*alone', '5 ** 2']) assert.equal(words(plain), plain);
  assert.equal(words('see [the page](https://example.org/x) now'), 'see the page now');
  assert.equal(words('\\*no\\*'), '*no*');
});
