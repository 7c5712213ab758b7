import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reduce } from '../../web/js/state/reduce.js';
import { newestUndo, undoOf } from '../../web/js/state/offers.js';
import { rangeOf } from '../../web/js/state/ranges.js';
import { coverage, rowMaker } from '../../web/js/state/rows.js';
import { activity, emptyState, isBusy, isHeld } from '../../web/js/state/state.js';

let clock = 0;
const run = (events, state = emptyState('s')) => events.reduce((now, event) => reduce(now, { at: clock += 10, ...event }), state);
const freeze = (value) => {
  if (value && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
};

const typed = (seq, text, id = `u${seq}`) => ({ name: 'message:added', seq, messageId: id, role: 'user', source: 'typed', parts: [{ type: 'text', text }] });
const chunk = (offset, content, more = {}) => ({ name: 'llm:chunk', messageId: 'm-s2', stepId: 's2', chunkType: 'text', content, offset, ...more });
const answered = (seq, text, calls = [], more = {}) => ({
  name: 'message:added', seq, messageId: 'm-s2', role: 'assistant', source: 'model',
  parts: [{ type: 'text', text }, ...calls.map((id) => ({ type: 'tool-call', call_id: id, name: 'bash', arguments: '{"command":"ls"}' }))], ...more,
});
const ended = (seq, callId, more = {}) => ({ name: 'llm:tool-result', seq, callId, toolName: 'bash', success: true, status: 'completed', sanitized: [{ type: 'text', text: 'out' }], truncated: false, ...more });
const STORY = [
  { name: 'run:started', seq: 1, runId: 'r' }, typed(2, 'hello'), chunk(0, 'I loo'), chunk(5, 'k 👍'), chunk(8, '.'),
  answered(4, 'I look 👍.', ['c1', 'c2']), { name: 'tool:started', seq: 5, callId: 'c1' },
  { name: 'tool:output', callId: 'c1', text: 'a\n', offset: 0 }, ended(6, 'c1'),
  { name: 'tool:approval-request', seq: 7, approvalId: 's:a', callId: 'c2', toolName: 'bash', args: {}, argsText: '{}' },
];

test('an event changes nothing in place', () => {
  STORY.reduce((state, event) => freeze(reduce(state, freeze({ at: 1, ...event }))), freeze(emptyState('s')));
});

test('every stored event may come twice', () => {
  const once = run(STORY);
  const stored = STORY.filter((event) => event.seq);
  const twice = run([...stored, ...stored], run(STORY));
  const facts = (state) => state.messages.map(({ id, text, calls }) => [id, text, calls.map(({ callId, status, approval, result }) => [callId, status, approval?.id, result?.content])]);
  assert.deepEqual(facts(twice), facts(once));
  assert.equal(twice.seq, 7);
});

test('text streams by characters, whatever comes again', () => {
  const state = run(STORY.slice(0, 5));
  assert.equal(state.answer.text, 'I look 👍.');
  assert.equal(run([chunk(8, '.'), chunk(5, 'k 👍'), chunk(8, '.')], state).answer.text, 'I look 👍.', 'a piece that comes again is not doubled');
  assert.equal(run([chunk(0, 'Anew')], state).answer.text, 'Anew', 'a try that is repeated begins anew');
  const resumed = run([{ name: 'page:connected' }, { name: 'llm:snapshot', messageId: 'm-s2', stepId: 's2', parts: [{ type: 'text', text: 'I look 👍. And' }], offset: 13 }, chunk(13, ' more')], state);
  assert.equal(resumed.answer.text, 'I look 👍. And more');
});

test('an answer that was not told of again after a break is no more', () => {
  const state = run([...STORY.slice(0, 5), { name: 'page:connected' }, { name: 'queue:snapshot', entries: [] }]);
  assert.equal(state.answer, null);
});

test('an answer that was paused is one message', () => {
  const state = run([
    typed(1, 'x'), chunk(0, 'One '), answered(3, 'One ', [], { paused: true }), chunk(4, 'two', { stepId: 's5' }),
    { ...answered(6, 'two'), messageId: 'm-s5', continues: 'm-s2' }, { ...answered(6, 'two'), messageId: 'm-s5', continues: 'm-s2' },
  ]);
  assert.deepEqual(state.messages.map((message) => message.text), ['x', 'One two']);
});

test('what the agent does is said in one word', () => {
  const kinds = [];
  STORY.reduce((state, event) => {
    const next = reduce(state, { at: 1, ...event });
    kinds.push(activity(next).kind);
    return next;
  }, emptyState('s'));
  assert.deepEqual(kinds, ['thinking', 'thinking', 'writing', 'writing', 'writing', 'thinking', 'tools', 'tools', 'thinking', 'waiting']);
  assert.equal(isBusy(run(STORY)), true);
  const done = run([{ name: 'run:complete', seq: 20, runId: 'r', finishReason: 'stop', steps: 1 }], run(STORY.slice(0, 6)));
  assert.equal(activity(done).kind, 'idle');
});

test('a retry is a countdown, and gone with the next word', () => {
  const state = run([{ name: 'run:started', seq: 1, runId: 'r' }, { name: 'run:waiting', at: 1_000, reason: 'outage', attempt: 1, nextAttemptAt: 1_500, lastError: { code: 'third-party', message: 'busy' } }]);
  assert.deepEqual(state.retry, { reason: 'outage', error: 'busy', code: 'third-party', attempt: 1, until: 1_500 });
  assert.equal(activity(state).kind, 'retrying');
  assert.equal(run([chunk(0, 'x')], state).retry, null);
});

test('live output is kept in order, and the result takes its place', () => {
  const out = (offset, text) => ({ name: 'tool:output', callId: 'c1', text, offset });
  const state = run([out(2, 'b\n'), out(2, 'b\n')], run(STORY.slice(0, 8)));
  const call = (each) => each.messages.at(-1).calls[0];
  assert.equal(call(state).output, 'a\nb\n');
  assert.equal(call(run([out(90, 'z')], state)).outputLost, true);
  const done = call(run([ended(6, 'c1', { truncated: true, omittedChars: 5, totalChars: 9 })], state));
  assert.equal(done.output, undefined);
  assert.deepEqual(done.result.truncated, { omittedChars: 5, totalChars: 9 });
});

test('the queue follows what is said of it', () => {
  const parts = [{ type: 'text', text: 'x' }];
  const entries = ['a', 'b', 'c'].map((id, at) => ({ id, position: at + 1, parts }));
  const state = run([{ name: 'message:queued', id: 'a', position: 1 }, { name: 'queue:snapshot', entries }]);
  const left = run([{ name: 'message:removed', id: 'b' }], state);
  assert.deepEqual(left.queue.map(({ id, position }) => [id, position]), [['a', 1], ['c', 2]]);
  assert.deepEqual(run([{ name: 'message:dequeued', seq: 9, ids: ['a', 'c'], count: 2 }], left).queue, []);
});

const item = (seq, role, more = {}) => ({ id: `i${seq}`, seq, at: seq * 1_000, role, parts: [{ type: 'text', text: `t${seq}` }], ...more });
const asks = (seq, callId) => item(seq, 'assistant', {
  parts: [{ type: 'tool-call', call_id: callId, name: 'read', arguments: '{}' }], toolCalls: [{ callId, status: 'completed' }],
  tokenUsage: { inputTokens: 10, outputTokens: 1, cacheReadTokens: 4 },
});
const gives = (seq, callId) => ({ id: `i${seq}`, seq, at: seq * 1_000, role: 'tool', callId, status: 'completed', parts: [{ type: 'tool-result', call_id: callId, status: 'completed', content: [{ type: 'text', text: 'r' }] }] });

test('pages join in any order, and a result finds its call on an older page', () => {
  const newer = { name: 'page:messages', messages: [gives(5, 'c'), item(6, 'assistant')], hasMore: true, before: 5, isOlder: true };
  const older = { name: 'page:messages', messages: [item(1, 'user'), asks(3, 'c')], hasMore: false, isOlder: true };
  const state = run([newer, older]);
  assert.deepEqual(state.messages.map((message) => message.seq), [1, 3, 6]);
  assert.equal(state.messages[1].calls[0].result.seq, 5);
  assert.deepEqual(state.orphans, {});
  assert.deepEqual(state.older, { more: false, before: null });
  assert.deepEqual(state.steps, [{ seq: 3, messageId: 'i3', input: 10, cached: 4, output: 1 }]);
});

test('the log and the stream give the same conversation', () => {
  const fromStream = run(STORY.slice(0, 9));
  const fromPage = run([{ name: 'page:messages', isOlder: true, hasMore: false, messages: [
    { id: 'u2', seq: 2, at: 1, role: 'user', parts: [{ type: 'text', text: 'hello' }] },
    { id: 'm-s2', seq: 4, at: 2, role: 'assistant', parts: STORY[5].parts, toolCalls: [{ callId: 'c1', args: { command: 'ls' }, argsText: '{"command":"ls"}', status: 'completed' }, { callId: 'c2', args: { command: 'ls' }, argsText: '{"command":"ls"}', status: 'pending' }] },
    { id: 'm6', seq: 6, at: 3, role: 'tool', callId: 'c1', status: 'completed', parts: [{ type: 'tool-result', call_id: 'c1', content: [{ type: 'text', text: 'out' }] }] },
  ] }]);
  const facts = (state) => state.messages.map(({ id, seq, kind, text, calls }) => ({ id, seq, kind, text, calls: calls.map(({ callId, argsText, status, result }) => ({ callId, argsText, status, result })) }));
  assert.deepEqual(facts(fromPage), facts(fromStream));
  assert.equal(fromPage.messages[1].calls[0].argsText, '{"command":"ls"}');
});

test('compacted history folds into one row, where it was; an undo unfolds it', () => {
  assert.deepEqual(rangeOf('lh:12-40'), { from: 12, to: 40 });
  assert.equal(rangeOf('x:1'), null);
  const base = run([{ name: 'page:messages', isOlder: true, hasMore: false, messages: [item(2, 'user'), item(4, 'assistant'), item(6, 'user'), item(8, 'assistant'), asks(10, 'c'), gives(12, 'c')] }]);
  const edits = [
    { id: 'e5', seq: 5, kind: 'compaction', active: true, handles: ['lh:2-4'] }, { id: 'e9', seq: 9, kind: 'compaction', active: true, handles: ['lh:2-6'] },
    { id: 'e13', seq: 13, kind: 'prune', active: true, handles: ['lh:12'] },
  ];
  const rows = rowMaker();
  const shown = rows(run([{ name: 'page:compactions', compactions: edits }], base));
  assert.deepEqual(shown.map((row) => row.key), ['fold-e9-2', 'i8', 'i10', 'prune-e13']);
  assert.deepEqual(shown[0].messages.map((message) => message.seq), [2, 4, 6]);
  assert.deepEqual(shown[0].inner.map((edit) => edit.id), ['e5']);
  assert.equal(shown[2].cleared, 'c');
  const undone = run([{ name: 'page:compactions', compactions: edits }, { name: 'context:restored', seq: 14, compactionId: 'e9' }], base);
  assert.deepEqual(rows(undone).map((row) => row.key), ['fold-e5-2', 'i6', 'i8', 'restored-e9', 'i10', 'prune-e13']);
  assert.equal(coverage(edits, () => false).cleared.get(12).id, 'e13');
  const several = coverage([{ id: 'e', kind: 'compaction', active: true, handles: ['lh:8-9', 'lh:2-4'] }], () => false).folds;
  assert.deepEqual(several.map(({ from, part, parts }) => [from, part, parts]), [[2, 1, 2], [8, 2, 2]]);
});

test('a piece of an answer makes one new row and leaves the others as they were', () => {
  const rows = rowMaker();
  const state = run(STORY.slice(0, 4));
  const before = rows(state);
  const after = rows(run([chunk(8, '!')], state));
  assert.equal(after.length, before.length);
  assert.ok(before.slice(0, -1).every((row, at) => row === after[at]));
  assert.equal(after.at(-1).message.text, 'I look 👍!');
  const stored = rows(run([answered(4, 'I look 👍!')], state));
  assert.equal(stored.at(-1).key, after.at(-1).key, 'the row stays the same when its message is stored');
});

test('how a run ended is said once', () => {
  const end = { name: 'run:complete', seq: 9, runId: 'r', finishReason: 'error', error: { code: 'auth', message: 'no key' } };
  const state = run([{ name: 'run:started', seq: 1, runId: 'r' }, { name: 'llm:error', seq: 8, error: 'no key', code: 'auth', recoverable: false }, end, end]);
  assert.deepEqual(state.notices.map(({ tone, detail }) => [tone, detail]), [['failure', 'No key']]);
  const told = [{ name: 'llm:error', seq: 8, error: 'no key', code: 'auth', recoverable: false }, end];
  const atRest = { name: 'page:session', session: { status: 'idle', lastSeq: 9, lastFinishReason: 'error' }, at: 1 };
  const late = run([typed(2, 'hello'), atRest, ...told]);
  assert.deepEqual(late.notices.map(({ detail, code }) => [detail, code]), [['No key', 'auth']], 'also to who comes after the run began');
  const plain = run([typed(2, 'hello'), told[0], { ...end, error: undefined }]);
  assert.equal(plain.notices[0].detail, 'No key', 'an end without a reason has that of its step');
});

test('a failed turn offers to go on until something is said, and stands apart from the next', () => {
  const end = { name: 'run:complete', seq: 9, runId: 'r', finishReason: 'error', error: { code: 'auth', message: 'no key' } };
  const rows = (state) => rowMaker()(state).map(({ kind, goOn, speaks, notice }) => [kind, kind === 'notice' ? goOn || notice.text : Boolean(speaks)]);
  const failed = run([typed(2, 'one'), end]);
  assert.deepEqual(rows(failed), [['message', true], ['notice', 'Try again']]);
  assert.deepEqual(rows(run([{ name: 'run:started', seq: 10, runId: 'r2' }], failed)).at(-1), ['notice', 'The model server did not accept the key. Everything up to here is kept.'], 'not while it is tried');
  const next = run([typed(11, 'two')], failed);
  assert.deepEqual(rows(next).map(([kind]) => kind), ['message', 'notice', 'message']);
  assert.deepEqual(rows(next).slice(1), [['notice', 'The model server did not accept the key. Everything up to here is kept.'], ['message', true]], 'it is over, and the next turn says who speaks');
  const reloaded = run([{ name: 'page:messages', isOlder: true, hasMore: false, messages: [item(2, 'user'), item(11, 'user')] }]);
  assert.deepEqual(rows(reloaded), [['message', true], ['notice', 'No answer came to this message.'], ['message', true]]);
  const steps = run([typed(2, 'one'), { ...end, finishReason: 'max-steps', error: undefined }]);
  assert.equal(rows(steps).at(-1)[1], 'Go on');
  const stopped = run([typed(2, 'one'), { ...end, finishReason: 'cancelled', error: undefined }]);
  assert.equal(rows(stopped).at(-1)[1], 'Stopped. What was said is kept.');
  assert.equal(run([{ name: 'llm:error', seq: 8, error: 'the call was stopped', code: 'interrupted', recoverable: false }, { ...end, finishReason: 'cancelled', error: undefined }]).notices[0].detail, undefined, 'who stops it needs no reason');
  const cut = run([{ name: 'page:messages', messages: [item(4, 'assistant', { interrupted: 'cancelled' })] }], stopped);
  assert.deepEqual(rows(cut).map(([kind]) => kind), ['message', 'message'], 'an answer that says it itself is enough');
});

test('what waits is held where nothing runs', () => {
  const entries = [{ id: 'a', position: 1, parts: [{ type: 'text', text: 'x' }] }];
  const busy = run([{ name: 'run:started', seq: 1, runId: 'r' }, { name: 'queue:snapshot', entries }]);
  assert.equal(isHeld(busy), false);
  const stopped = run([{ name: 'run:complete', seq: 9, runId: 'r', finishReason: 'cancelled' }], busy);
  assert.equal(isHeld(stopped), true);
  assert.equal(isHeld(run([{ name: 'message:removed', id: 'a' }], stopped)), false);
});

test('an undo is offered where it would be accepted', () => {
  const edit = (id, seq, handles, more = {}) => ({ id, seq, kind: 'compaction', active: true, handles, originalTokens: 9_000, compressedTokens: 1_000, ...more });
  const [first, later, apart] = [edit('a', 5, ['lh:2-4']), edit('b', 9, ['lh:4-8']), edit('c', 12, ['lh:10-11'])];
  assert.equal(undoOf(first, [first]), '', 'what nobody refused is offered');
  assert.equal(undoOf(first, [first, later]), 'built-on');
  assert.equal(undoOf(later, [first, later]), '');
  assert.equal(undoOf(first, [first, { ...later, active: false }]), '', 'what is undone is no obstacle');
  assert.equal(undoOf(first, [first, apart]), '');
  assert.equal(undoOf({ ...first, active: false }, [first]), 'undone');
  assert.equal(undoOf({ ...first, undo: 'no-room' }, [first]), 'no-room');
  assert.equal(undoOf({ ...first, undo: 'built-on' }, [first, { ...later, active: false }]), '', 'what happened since counts');
  const state = { ...emptyState('s'), edits: [first, { ...later, undo: 'no-room' }] };
  assert.deepEqual(newestUndo(state), { edit: state.edits[1], refused: 'no-room' });
  assert.equal(newestUndo(emptyState('s')), null);
  const folded = run([{ name: 'page:messages', isOlder: true, hasMore: false, messages: [item(2, 'user'), item(4, 'assistant')] }, { name: 'page:compactions', compactions: [first] }]);
  const rows = rowMaker();
  assert.equal(rows(folded)[0].undo, '');
  assert.equal(rows(run([{ name: 'page:compactions', compactions: [{ ...first, undo: 'no-room' }] }], folded))[0].undo, 'no-room');
});

test('a tool has run from its start to its end; one that never ran has no time', () => {
  const page = (more) => run([{ name: 'page:messages', isOlder: true, hasMore: false, messages: [asks(3, 'c'), { ...gives(90, 'c'), ...more }] }]).messages[0].calls[0];
  const ran = page({ startedAt: 88_000 });
  assert.equal(ran.endedAt - ran.startedAt, 2_000, 'the wait before it does not count');
  assert.equal(page({ status: 'cancelled' }).startedAt, undefined);
});

test('a fold that begins before what is known says so', () => {
  const fold = (more) => rowMaker()(run([
    { name: 'page:messages', isOlder: true, hasMore: more, before: 6, messages: [item(6, 'user'), item(8, 'assistant')] },
    { name: 'page:compactions', compactions: [{ id: 'e7', seq: 7, kind: 'compaction', active: true, handles: ['lh:2-6'] }] },
  ]))[0];
  assert.equal(fold(true).isCut, true);
  assert.equal(fold(false).isCut, false);
});

test('a switch of the model is said once and holds at once; told again it takes nothing back', () => {
  const session = (model) => ({ name: 'page:session', session: { status: 'idle', lastSeq: 1, model: { model } } });
  const switched = (seq, model) => ({ name: 'llm:switched', seq, newConfig: { provider: 'p', model } });
  const state = run([session('one'), switched(5, 'two')]);
  assert.equal(state.session.model.model, 'two');
  assert.match(state.notices[0].text, /now two/);
  const again = run([session('three'), switched(5, 'two')], state);
  assert.equal(again.session.model.model, 'three');
  assert.equal(again.notices.length, 1);
});

test('a question that is told again is the same one', () => {
  const state = run(STORY);
  const question = (each) => each.messages.at(-1).calls[1].approval;
  assert.equal(question(run([STORY.at(-1)], state)), question(state));
  assert.equal(question(run([{ name: 'page:approvals', approvals: [{ callId: 'c2', approvalId: 's:a' }] }], state)), question(state));
  assert.deepEqual(question(run([{ name: 'page:approvals', approvals: [{ callId: 'c2', approvalId: 's:b' }] }], state)), { id: 's:b' });
});
