import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, dollars, duration, firstLine, lineCount, percent, plural, tokens } from '../../web/js/text/format.js';

test('tokens are short and never wrong by a step', () => {
  for (const [given, expected] of [[0, '0'], [999, '999'], [1_000, '1K'], [52_100, '52.1K'], [99_940, '99.9K'], [99_960, '100K'], [200_000, '200K'], [999_600, '1M'], [1_250_000, '1.25M'], [-1_500, '-1.5K'], [undefined, '0']]) {
    assert.equal(tokens(given), expected);
  }
});

test('shares, times and money', () => {
  assert.deepEqual([0, 0.061, 0.62, 5, 26.4, 100].map(percent), ['0', '0.06', '0.6', '5', '26', '100']);
  assert.deepEqual([0, 420, 14_200, 59_700, 125_000, 3_780_000].map(duration), ['0 s', '0.4 s', '14 s', '1 min', '2 min 5 s', '1 h 3 min']);
  assert.deepEqual([0, 0.14, 0.0021].map(dollars), ['$0.00', '$0.14', '$0.0021']);
  assert.deepEqual([30_000, 5 * 60_000, 3 * 3_600_000, 2 * 86_400_000].map((age) => ago(1e12 - age, 1e12)), ['now', '5 min', '3 h', '2 d']);
});

test('lines and words', () => {
  assert.equal(firstLine('\n  one  \ntwo'), 'one');
  assert.equal(firstLine('abcdef', 4), 'abc…');
  assert.deepEqual(['', 'a', 'a\n', 'a\nb', '\n'].map(lineCount), [0, 1, 1, 2, 1]);
  assert.equal(plural(1, 'step'), '1 step');
  assert.equal(plural(2_000, 'step'), '2,000 steps');
});
