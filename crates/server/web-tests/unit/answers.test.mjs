import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attemptOf, breakOf } from '../../web/js/text/failures.js';
import { reduce } from '../../web/js/state/reduce.js';
import { rowMaker } from '../../web/js/state/rows.js';
import { withTrail } from '../../web/js/state/answers.js';
import { emptyState } from '../../web/js/state/state.js';

const run = (events, state = emptyState('s')) => events.reduce((now, event) => reduce(now, { at: 1, ...event }), state);
const text = (words) => [{ type: 'text', text: words }];
const typed = (seq, words) => ({ name: 'message:added', seq, messageId: `u${seq}`, role: 'user', source: 'typed', parts: text(words) });
const note = (seq, words) => ({ name: 'message:added', seq, messageId: `n${seq}`, role: 'user', source: 'note', parts: text(words) });
const said = (seq, step, words, more = {}) => ({ name: 'message:added', seq, messageId: `m-${step}`, role: 'assistant', source: 'model', parts: text(words), ...more });
const failed = (seq, step) => ({ name: 'llm:error', seq, error: 'the connection broke', code: 'network', context: { stepId: step }, recoverable: true });
const chunk = (step, messageId, offset, content) => ({ name: 'llm:chunk', messageId, stepId: step, chunkType: 'text', content, offset });
const complete = (seq, finishReason, error) => ({ name: 'run:complete', seq, runId: `r${seq}`, finishReason, error });
const item = (seq, id, role, words, more = {}) => ({ id, seq, at: 1, role, parts: text(words), ...more });
const page = (messages, runEnds) => ({ name: 'page:messages', isOlder: true, hasMore: false, messages, runEnds });

/** Each row as its kind and texts: those before, and its own. */
const shown = (state) => rowMaker()(state).map((row) => (
  row.kind === 'notice' ? ['notice', row.settled] : [row.message.kind, ...(row.before ?? []).map((each) => each.text), withTrail(row.message, row.trail).text]
));

test('an answer that was asked for again is one row with the attempts before it, live and stored', () => {
  const broken = [typed(2, 'x'), said(4, 's3', 'Half of', { interrupted: 'lost' }), failed(5, 's3')];
  assert.deepEqual(shown(run(broken)), [['typed', 'x'], ['model', 'Half of']], 'until the next one begins');
  const again = run([...broken, chunk('s6', 'm-s6', 0, 'The wh')]);
  assert.deepEqual(shown(again), [['typed', 'x'], ['model', 'Half of', 'The wh']]);
  assert.equal(rowMaker()(again).at(-1).speaks, true);
  const whole = run([said(7, 's6', 'The whole.'), complete(9, 'stop')], again);
  const stored = run([page([item(2, 'u2', 'user', 'x'), item(4, 'm-s3', 'assistant', 'Half of', { interrupted: 'lost' }), item(7, 'm-s6', 'assistant', 'The whole.')])]);
  for (const state of [whole, stored]) assert.deepEqual(shown(state), [['typed', 'x'], ['model', 'Half of', 'The whole.']]);
});

test('an answer that the model was asked to go on with is one row', () => {
  const words = 'The answer above broke off.';
  const live = run([typed(2, 'x'), said(4, 's3', 'One ', { interrupted: 'paused', paused: true }), failed(5, 's3'), note(6, words), chunk('s7', 'm-s7', 0, 'tw')]);
  assert.deepEqual(shown(live), [['typed', 'x'], ['model', 'One ', words, 'tw']]);
  const whole = run([said(8, 's7', 'two.')], live);
  const stored = run([page([
    item(2, 'u2', 'user', 'x'), item(4, 'm-s3', 'assistant', 'One ', { interrupted: 'paused', error: { code: 'network', message: 'the connection broke' } }),
    item(6, 'n6', 'user', words, { isNote: true }), item(8, 'm-s7', 'assistant', 'two.'),
  ])]);
  for (const state of [whole, stored]) {
    assert.deepEqual(shown(state), [['typed', 'x'], ['model', 'One ', words, 'two.']]);
    assert.equal(breakOf(state.messages[1]), 'The connection broke here; the answer goes on.');
  }
});

test('an attempt to continue an answer is no part of it, and is repeated in no other row', () => {
  const live = run([
    typed(2, 'x'), said(4, 's3', 'One ', { interrupted: 'paused', paused: true }), failed(5, 's3'),
    chunk('s6', 'm-s3', 4, 'tw'), said(7, 's6', 'tw', { interrupted: 'lost', continues: 'm-s3' }), failed(8, 's6'), complete(9, 'error', { code: 'network', message: 'gone' }),
  ]);
  const first = [item(2, 'u2', 'user', 'x'), item(4, 'm-s3', 'assistant', 'One ', { interrupted: 'paused' })];
  const attempt = item(7, 'm-s6', 'assistant', 'tw', { interrupted: 'lost', continues: 'm-s3', error: { code: 'network', message: 'gone' } });
  const end = { seq: 9, at: 1, runId: 'r9', finishReason: 'error', error: { code: 'network', message: 'gone' } };
  for (const state of [live, run([page([...first, attempt], [end])])]) {
    assert.deepEqual(shown(state), [['typed', 'x'], ['model', 'One tw'], ['notice', '']], 'what was seen stays');
  }
  const goesOn = run([{ name: 'run:started', seq: 10, runId: 'r10' }, chunk('s11', 'm-s3', 4, 'two')], live);
  const row = rowMaker()(goesOn).find((each) => each.live);
  assert.deepEqual([row.message.text, row.before.map((each) => each.text), row.trail], ['One two', ['tw'], undefined]);
  const whole = run([said(12, 's11', 'two.', { continues: 'm-s3' }), complete(14, 'stop')], goesOn);
  const stored = run([page([first[0], attempt, item(12, 'm-s3', 'assistant', 'One two.')], [end])]);
  for (const state of [whole, stored]) assert.deepEqual(shown(state), [['typed', 'x'], ['notice', 'answered'], ['model', 'tw', 'One two.']]);
});

test('an attempt of a run that ended stays where that run ended', () => {
  const state = run([typed(2, 'x'), said(4, 's3', 'Half', { interrupted: 'lost' }), complete(6, 'error', { code: 'network', message: 'gone' }), said(9, 's8', 'Whole.')]);
  assert.deepEqual(shown(state), [['typed', 'x'], ['model', 'Half'], ['notice', 'answered'], ['model', 'Whole.']]);
});

test('the reason of each failed run is on the page of its messages', () => {
  const end = (seq, code, message) => ({ seq, at: 1, runId: `r${seq}`, finishReason: 'error', error: { code, message } });
  const stored = [item(2, 'u2', 'user', 'one'), item(5, 'u5', 'user', 'two'), item(8, 'u8', 'user', 'three')];
  const state = run([page(stored, [end(3, 'auth', 'no key'), end(6, 'network', 'gone'), end(9, 'other', 'odd')])]);
  assert.deepEqual(rowMaker()(state).map((row) => row.kind), ['message', 'notice', 'message', 'notice', 'message', 'notice']);
  assert.deepEqual(state.notices.map(({ detail }) => detail), ['No key', 'Gone', 'Odd']);
  assert.ok(state.notices.every(({ text: words, help }) => /kept/.test(words) && help), 'what was kept, and what to do');
  assert.equal(rowMaker()(state).at(-1).goOn, 'Try again');
  const told = run([complete(9, 'error', { code: 'other', message: 'odd' })], state);
  assert.equal(run([{ ...complete(9, 'error'), runId: 'r9' }], told).notices.length, 3, 'told by the stream too, it is said once');
  const folded = run([{ name: 'page:compactions', compactions: [{ id: 'e7', seq: 7, kind: 'compaction', active: true, handles: ['lh:2-5'] }] }], state);
  assert.deepEqual(rowMaker()(folded).map((row) => row.kind), ['fold', 'notice', 'message', 'notice'], 'a reason stands with what it belongs to');
});

test('an attempt says how far it came', () => {
  assert.match(attemptOf({ text: 'Half of it', reasoning: 'Hm' }), /after 3 words;/);
  assert.match(attemptOf({ text: '', reasoning: 'Hm' }), /after 1 word of thought;/);
});
