import assert from 'node:assert/strict';
import { test } from 'node:test';
import { columnsOf, marksOf, niceTop } from '../../web/js/meter/columns.js';
import { captionOf, segmentsOf, tableOf, ticksOf } from '../../web/js/meter/segments.js';

const REPORT = {
  total: 52_100, window: 200_000, percent: 26.05, systemPrompt: 900, tools: [{ source: 'builtin', tokens: 1_100 }, { source: 'files', tokens: 500 }],
  messages: { total: 49_600, text: 9_600, toolResults: 40_000, reasoning: 0, media: 0 }, framing: 0, pruned: 2, compacted: 41, deferredTools: 0,
  outputReserve: 8_000, freeSpace: 139_900, thresholds: [{ name: 'adaptive', tokens: 150_000 }, { name: 'usable', tokens: 190_000 }],
  basis: { lastInputTokens: 50_000, lastOutputTokens: 100, newMessagesEstimate: 2_000, lastErrorPercent: 0.6 },
  tokenUsage: { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, totalTokens: 3 }, compactionCount: 1, source: 'reported + estimated',
  counter: 'structured estimate', windowSource: 'declared', expectedError: 0.006,
};

test('the parts of the bar add up to the window, and only what is estimated is hatched', () => {
  const parts = segmentsOf(REPORT, ['x'.repeat(400)]);
  assert.equal(parts.reduce((sum, part) => sum + part.tokens, 0), REPORT.window);
  assert.deepEqual(parts.map((part) => part.key), ['system', 'tools', 'summary', 'messages', 'results', 'new', 'free', 'reserve']);
  assert.deepEqual(parts.filter((part) => part.estimated).map((part) => part.key), ['summary', 'new']);
  assert.equal(parts.find((part) => part.key === 'new').tokens, 2_000);
  const guessed = segmentsOf({ ...REPORT, source: 'estimated' });
  assert.ok(guessed.filter((part) => !['free', 'reserve'].includes(part.key)).every((part) => part.estimated));
});

test('a window that is over-full keeps its parts', () => {
  const parts = segmentsOf({ ...REPORT, total: 210_000, messages: { ...REPORT.messages, toolResults: 190_000 } });
  assert.equal(parts.reduce((sum, part) => sum + part.tokens, 0), 210_000);
  assert.ok(!parts.some((part) => ['free', 'reserve'].includes(part.key)));
});

test('the caption says how far it may be off', () => {
  assert.equal(captionOf({ ...REPORT, estimated: 2_000 }), '52.1K / 200K · 26 % · accurate to 0.6 %');
  assert.equal(captionOf({ ...REPORT, expectedError: 0, estimated: 0 }), '52.1K / 200K · 26 % · counted by the model');
  assert.equal(captionOf({ ...REPORT, estimated: 2_000 }, { ...REPORT, windowSource: 'assumed' }), '52.1K / 200K · 26 % · accurate to 0.6 % · window assumed');
  assert.equal(captionOf(null), '');
  assert.deepEqual(ticksOf(REPORT).map((tick) => tick.at), [0.75, 0.96]);
});

test('the table has every row of the report, each explained', () => {
  const rows = tableOf(REPORT);
  assert.ok(rows.every((row) => row.says.length > 20), 'each row is explained');
  for (const label of ['Total', 'Tools · files', 'Compacts at (adaptive)', 'Messages compacted', 'Input of the last call', 'New since then']) {
    assert.ok(rows.some((row) => row.label === label), label);
  }
  assert.ok(!rows.some((row) => row.label === 'Framing'), 'an empty row is left out');
});

test('many steps share columns, and marks stand where compactions were', () => {
  const steps = Array.from({ length: 250 }, (_, at) => ({ seq: at * 3, input: at, cached: at * 2, output: 1 }));
  const columns = columnsOf(steps, 90);
  assert.ok(columns.length <= 90);
  assert.deepEqual([columns[0].first, columns.at(-1).last], [1, 250]);
  assert.ok(columns.every((column) => column.cached <= column.input));
  assert.equal(columns.at(-1).input, 249, 'the largest stands for all');
  assert.deepEqual(marksOf([{ seq: 4 }], columnsOf(steps.slice(0, 5), 90)).map((mark) => mark.at), [2]);
  assert.deepEqual([0, 7, 12, 30, 60].map(niceTop), [1, 10, 20, 50, 100]);
});
