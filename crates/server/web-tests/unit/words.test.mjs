import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alwaysAllows, change, outcome, subject } from '../../web/js/text/calls.js';
import { completions, parseCommand } from '../../web/js/text/commands.js';
import { diffLines, hunks, tally } from '../../web/js/text/diff.js';
import { cutsMessage, leftOut, reasonOf, refusedUndo, sizes, survivalLine, whyNot, writerLine } from '../../web/js/text/edits.js';
import { retryLine, statusLine } from '../../web/js/view/now.js';
import { factsOf, modelOf, spentOn } from '../../web/js/controls/header.js';
import { STRATEGIES, choicesOf, readTrigger, writeTrigger } from '../../web/js/controls/settings.js';
import { ways } from '../../web/js/text/ways.js';
import { emptyState } from '../../web/js/state/state.js';

const call = (name, args, more = {}) => ({ name, argsText: typeof args === 'string' ? args : JSON.stringify(args), status: 'completed', ...more });
const result = (text, more = {}) => ({ result: { seq: 1, content: [{ type: 'text', text }], truncated: null, ...more } });

test('a call says the argument that matters', () => {
  assert.equal(subject(call('bash', { description: 'count', command: 'ls\n  wc' })), 'ls ⏎ wc');
  assert.equal(subject(call('read', { path: 'a.rs', offset: 20 })), 'a.rs:20');
  assert.equal(subject(call('grep', { pattern: 'x+', path: 'src' })), 'x+ in src');
  assert.equal(subject(call('other', { n: 1, word: 'w' })), 'w');
  assert.equal(subject(call('bash', 'no json {')), 'no json {');
  assert.equal(subject(call('ls', {})), '');
});

test('what is always allowed is said in full', () => {
  const end = 'in this session: those that wait now and all later ones. It ends when you take it back or close this tab.';
  assert.equal(alwaysAllows('bash'), `“Always allow bash” allows every bash command, ${end}`);
  assert.equal(alwaysAllows('files__\u202eedit'), `“Always allow files__\\u{202e}edit” allows every call of files__\\u{202e}edit, with any arguments, ${end}`);
});

test('a limited permission is said in full, too', () => {
  assert.match(alwaysAllows('bash', { tool: 'bash', words: ['wc'] }), / “Always allow wc …” does the same for commands that begin with “wc” and contain no second command\.$/);
  assert.match(alwaysAllows('bash', { tool: 'bash', command: 'a; b' }), / “Always allow exactly this command” does the same for this command alone, word for word\.$/);
  assert.match(alwaysAllows('edit', { tool: 'edit', path: 'a.rs' }), / “Always allow changes of a\.rs” does the same for calls of edit with this path\.$/);
});

test('a call says how it ended', () => {
  assert.equal(outcome(call('bash', {}, { status: 'error', ...result('a\n[exit code 101]') })), 'exit 101');
  assert.equal(outcome(call('read', {}, { status: 'error', ...result('Error: `x` does not exist') })), '`x` does not exist');
  assert.equal(outcome(call('read', {}, result('a', { truncated: { omittedChars: 9_000, totalChars: 12_000 } }))), '3,000 of 12,000 characters · rest kept');
  assert.equal(outcome(call('edit', { path: 'a', old: 'x\ny\n', new: 'x\nz\nw\n' }, result('ok'))), '+2 −1');
  assert.equal(outcome(call('bash', {}, result('a\nb\n'))), '2 lines');
  assert.equal(outcome(call('bash', {}, result('12 notes.md\n[exit code 0]'))), '1 line');
  assert.equal(outcome(call('bash', {}, result('(no output)\n[exit code 0]'))), 'no output');
  assert.equal(outcome(call('read', {}, result('     1\ta\n     2\tb\n[All 2 lines.]'))), '2 lines');
  assert.equal(outcome(call('ls', {}, result('x  0\n[1 entries.]'))), '1 line');
  assert.equal(outcome(call('other', {}, result('a\n[b.]'))), '2 lines');
  assert.equal(outcome(call('bash', {}, result(''))), 'no output');
  assert.equal(outcome(call('bash', {}, { status: 'pending', approval: { id: 'a' } })), 'waits for you');
  assert.equal(outcome(call('bash', {}, { status: 'cancelled', approval: { id: 'a', decision: 'deny' } })), 'denied');
});

test('a difference is the smallest one, and can be put together again', () => {
  const [before, after] = ['a\nb\nc\nd\ne\n', 'a\nc\nx\nd\ne\nf\n'];
  const lines = diffLines(before, after);
  const text = (kinds) => lines.filter((line) => kinds.includes(line.kind)).map((line) => `${line.text}\n`).join('');
  assert.equal(text(['same', 'removed']), before);
  assert.equal(text(['same', 'added']), after);
  assert.deepEqual(tally(lines), { added: 2, removed: 1 });
  const far = hunks(diffLines('1\n2\n3\n4\n5\n6\n7\n8\n9\n', '1\n2\n3\n4\n5\n6\n7\n8\nnine\n'), 2);
  assert.deepEqual(far.map((line) => line.kind), ['gap', 'same', 'same', 'removed', 'added']);
  assert.equal(far[0].count, 6);
  assert.equal(change(call('write', { path: 'a', content: 'x\ny' })).isWhole, true);
  assert.equal(change(call('bash', { command: 'x' })), null);
});

test('commands are known, and nothing else is one', () => {
  assert.deepEqual(parseCommand('/compact keep the names'), { name: 'compact', rest: 'keep the names' });
  assert.deepEqual(parseCommand(' /undo '), { name: 'undo', rest: '' });
  assert.equal(parseCommand('/frobnicate').unknown, true);
  assert.equal(parseCommand('/frobnicate').place, undefined);
  for (const name of ['recall', 'show', 'compactions', 'preview']) assert.ok(parseCommand(`/${name} x`).place.length > 20, name);
  assert.equal(parseCommand('/constructor').place, undefined);
  for (const text of ['hello /undo', '/etc/passwd is there', '/ undo', '']) assert.equal(parseCommand(text), null, text);
  assert.deepEqual(completions('/co').map((each) => each.name), ['compact', 'context']);
  assert.equal(completions('/').length, 14);
  for (const name of ['retry', 'resume']) assert.deepEqual(parseCommand(`/${name}`), { name, rest: '' });
  assert.equal(completions('/compact x').length, 0);
});

test('a compaction says why and what survives', () => {
  assert.equal(reasonOf({ reason: 'token_limit' }), 'the window was filling up');
  assert.equal(leftOut({ originalMessages: 15, compressedMessages: 5 }), 11);
  assert.equal(cutsMessage({ why: 'the newest message does not fit beside system prompt, tools and the room for the answer: 9 of its 12 characters are left out' }), true);
  assert.equal(cutsMessage({ why: 'the newest message is longer than the window: 9 of its 12 characters are left out' }), true);
  assert.equal(cutsMessage({ costNote: '3 old tool results pruned' }), false);
  assert.equal(sizes({ originalTokens: 96_200, compressedTokens: 11_400 }), '96.2K → 11.4K tokens');
  const tally = (verbatim, recoverableByModel, lost = 0) => ({ verbatim, recoverableByModel, recoverableByUser: 0, lost });
  assert.equal(survivalLine({ classes: { paths: tally(2, 3), numbers: tally(1, 0) } }), '3 of 6 facts are still in the window; the rest can be looked up, nothing is lost.');
  assert.match(survivalLine({ classes: { paths: tally(1, 0, 2) } }), /2 facts lost/);
});

test('a compaction that no model summarised says so, and what its answers cost', () => {
  assert.equal(writerLine({ costNote: '9 messages replaced by a summary by the model', summary: { checked: true, reasons: ['it is empty'] } }), null);
  assert.equal(writerLine({ costNote: '9 messages replaced by 2 summaries by the model and 1 extracts' }), null);
  assert.equal(writerLine({ why: '9 messages replaced by an extract without a model' }), 'No model wrote the summary: an extract stands in its place.');
  const refused = {
    costNote: '9 messages replaced by an extract without a model; summaries that were not used cost 20,800 input and 60 output tokens',
    summary: { checked: false, reasons: ['it is empty', 'it has no heading'] },
  };
  assert.equal(writerLine(refused), 'No model wrote the summary (the answer was refused: it has no heading): an extract stands in its place. The answers that were not used cost 20,800 input and 60 output tokens.');
});

test('a retry counts down', () => {
  assert.equal(retryLine({ reason: 'rate-limit', error: 'busy', attempt: 1, until: 5_000 }, 2_100), 'The model server asks to wait · next try in 3 s · try 2 · busy');
  assert.equal(retryLine({ reason: 'outage', error: 'gone', attempt: 2, until: 5_000 }, 6_000), 'The model server does not answer · trying again · try 3 · gone');
  const failed = retryLine({ reason: 'outage', error: 'CUDA out of memory (HTTP 500)', attempt: 1, until: 5_000 }, 6_000);
  assert.equal(failed, 'The model server reports an error · trying again · try 2 · CUDA out of memory (HTTP 500)');
});

test('a wait that ends far ahead has its moment, and on another day its date', () => {
  const now = new Date(2026, 10, 29, 11, 0).getTime();
  const line = (hours) => retryLine({ reason: 'rate-limit', error: 'busy', attempt: 1, until: now + hours * 3_600_000 }, now);
  assert.match(line(1.5), / · next try in 1 h 30 min \(at 12:30\) · /);
  assert.match(line(13.5), / · next try in 13 h 30 min \(at 00:30 on Nov 30\) · /);
  assert.match(line(0.1), / · next try in 6 min · /);
});

test('what is set is among the choices, whatever the server offers', () => {
  const same = { value: '__same__', label: 'Same as current agent (default)' };
  assert.deepEqual(choicesOf([same], '__same__'), [same]);
  assert.deepEqual(choicesOf([same, 'adaptive'], 'gone'), [same, { value: 'adaptive', label: 'adaptive' }, { value: 'gone', label: 'gone' }]);
});

test('a trigger survives being shown and saved', () => {
  for (const trigger of [null, { percentage: 0.625 }, { triggerTokens: 50_000 }, { type: 'overflow' }, { type: 'planner' }, { type: 'manual' }]) {
    const { kind, figure } = readTrigger(trigger);
    assert.deepEqual(writeTrigger(kind, figure), trigger);
  }
  for (const figure of ['', '0', '101', 'x']) assert.equal(writeTrigger('percentage', figure), undefined, figure);
});

test('the header says steps and what they cost, or their tokens where no price is known', () => {
  const state = { ...emptyState('s'), steps: [1, 2, 3] };
  const tokenUsage = { inputTokens: 90_000, cacheReadTokens: 60_000, outputTokens: 1_400, totalTokens: 91_400 };
  assert.equal(factsOf(state, { costUsd: 0.1432, tokenUsage }), '3 steps · $0.14');
  assert.equal(factsOf(state, { costUsd: 0, tokenUsage }), '3 steps · $0.00');
  assert.equal(factsOf(state, { tokenUsage }), '3 steps · 91.4K tokens');
  assert.equal(factsOf(state, { costUsd: null, tokenUsage }), '3 steps · 91.4K tokens');
  assert.equal(factsOf({ ...state, older: { more: true } }, {}), '', 'steps that are not all known are not counted');
  assert.match(spentOn(state, { costUsd: 0.1432, tokenUsage }), /^\$0\.14 at list prices: 90,000 tokens read, 60,000 of them from the cache; 1,400 written\.$/);
  assert.match(spentOn(state, { tokenUsage }), /^No price/);
  assert.equal(modelOf({ ...state, messages: [{ model: { model: 'old' } }] }, { model: { model: 'new' } }), 'new');
});

test('one line says what goes on, and for how long', () => {
  const state = { ...emptyState('s'), run: { since: 0, stepSince: 1_000, steps: 0 } };
  assert.deepEqual(statusLine(state, 3_500), { tone: 'busy', text: 'Waits for the model · 2.5 s' });
  assert.match(statusLine({ ...state, writing: [{ name: 'edit', length: 1_200 }] }, 0).text, /arguments of edit · 1,200 characters/);
  assert.deepEqual(statusLine({ ...state, retry: { reason: 'outage', error: 'busy', attempt: 1, until: 9_000 } }, 0), { tone: 'attention', text: 'The model server does not answer · next try in 9 s · try 2 · busy', canTryNow: true });
  assert.equal(statusLine(emptyState('s'), 0).text, '');
});

test('a session from another folder says so at rest', () => {
  const state = { ...emptyState('s'), session: { folderWarning: 'this session was begun in /a' } };
  assert.deepEqual(statusLine(state, 0), { tone: 'attention', text: 'This session was begun in /a' });
  assert.equal(statusLine({ ...state, run: { since: 0, stepSince: 0, steps: 0 } }, 0).tone, 'busy');
});

test('an undo that cannot be is explained, before it is tried and after', () => {
  assert.equal(whyNot(''), null);
  for (const refused of ['undone', 'built-on', 'no-room']) assert.ok(whyNot(refused)[1].length > 20, refused);
  assert.match(refusedUndo({ code: 'conflict' }), /Undo that one first|undo that one first/);
  assert.match(refusedUndo({ code: 'already-undone' }), /undone already/);
  assert.match(refusedUndo({ code: 'context-overflow', tokens: 9_100, usable: 7_500 }), /9\.1K tokens, and 7\.5K can be used/);
  assert.equal(refusedUndo({ code: 'storage', message: 'The disk is full.' }), 'The disk is full.');
});

test('each strategy has its line, and each way in what it needs', () => {
  const names = ['reactive-overflow', 'proactive-threshold', 'middle-removal', 'truncation', 'importance', 'summarization', 'pruning-agent', 'adaptive'];
  assert.deepEqual(Object.keys(STRATEGIES), names);
  const all = ways('http://127.0.0.1:4400');
  const text = all.map((way) => way.text).join('\n');
  for (const part of ['OPENAI_BASE_URL=http://127.0.0.1:4400/v1 ', 'ANTHROPIC_BASE_URL=http://127.0.0.1:4400 ', 'http://127.0.0.1:4400/api/message']) assert.ok(text.includes(part), part);
  assert.ok(!/cat token/.test(text), 'the path of the token does not depend on where one is');
  for (const { title, says } of all.filter((way) => !/OpenAI/.test(way.title))) assert.match(says, /--data-dir/, title);
  for (const title of ['An editor', 'Another agent']) JSON.parse(all.find((way) => way.title === title).text);
});
