// The rows of the conversation: what is shown, in which order, folded where history was compacted. Pure.
import { allOf, answersOf, brokenBefore, isLost } from './answers.js';
import { undoOf } from './offers.js';
import { rangesOf } from './ranges.js';
import { isBusy } from './state.js';

/**
 * What active edits cover. A compaction that a later one was built on is inside it.
 *
 * @returns {{folds: {edit, from, to, inner, part, parts}[], cleared: Map<number, Object>}} an edit may cover several
 *   parts of the conversation
 */
export function coverage(edits, isResult) {
  const folds = [];
  const cleared = new Map();
  for (const edit of edits.filter((each) => each.active).reverse()) {
    for (const range of rangesOf(edit)) {
      const outer = folds.find((fold) => fold.from <= range.from && range.to <= fold.to);
      if (edit.kind === 'prune' || (range.from === range.to && isResult(range.from))) {
        if (!outer && !cleared.has(range.from)) cleared.set(range.from, edit);
      } else if (outer) {
        if (outer.edit !== edit && !outer.inner.includes(edit)) outer.inner.unshift(edit);
      } else {
        folds.push({ edit, ...range, inner: [] });
      }
    }
  }
  folds.sort((a, b) => a.from - b.from);
  for (const fold of folds) {
    const mine = folds.filter((each) => each.edit === fold.edit);
    [fold.part, fold.parts] = [mine.indexOf(fold) + 1, mine.length];
  }
  return { folds, cleared };
}

/**
 * A maker of rows. What says the same as before is given again, so that a view need not look at it; a piece of an
 * answer costs no look at the messages.
 *
 * @returns {(state, unfolded: Set<string>) => Object[]} `unfolded` names the compactions whose originals stay in place
 */
export function rowMaker() {
  let known = null;
  let base = [];
  return (state, unfolded = new Set()) => {
    const inputs = [state.messages, state.edits, state.notices, state.older, isBusy(state), unfolded];
    if (!known || inputs.some((input, at) => input !== known[at])) {
      base = kept(withSpeakers(storedRows(state, unfolded)), base);
      known = inputs;
    }
    return withAnswer(base, state);
  };
}

function storedRows(state, unfolded) {
  const resultSeqs = new Set();
  for (const message of state.messages) for (const call of message.calls) if (call.result) resultSeqs.add(call.result.seq);
  const { folds, cleared } = coverage(state.edits, (seq) => resultSeqs.has(seq));
  const foldOf = (seq) => folds.find((fold) => fold.from <= seq && seq <= fold.to && !unfolded.has(fold.edit.id));
  const firstSeq = state.messages[0]?.seq ?? 0;
  const foldRow = (fold) => ({
    key: `fold-${fold.edit.id}-${fold.from}`, kind: 'fold', seq: fold.to, ...fold, messages: [],
    isCut: state.older.more && fold.from < firstSeq, undo: undoOf(fold.edit, state.edits),
  });
  const rows = [];
  const open = new Map();
  for (const answer of answersOf(state.messages, state.notices)) {
    const fold = foldOf(answer.message.seq);
    if (!fold) {
      rows.push(messageRow(answer, cleared, state.messages));
    } else if (open.has(fold)) {
      open.get(fold).messages.push(...allOf(answer));
    } else {
      const row = { ...foldRow(fold), messages: allOf(answer) };
      open.set(fold, row);
      rows.push(row);
    }
  }
  const inPlace = folds.filter((fold) => unfolded.has(fold.edit.id));
  rows.push(...inPlace.map((fold) => ({ ...foldRow(fold), seq: fold.to + 0.1, unfolded: true })));
  rows.push(...editRows(state.edits, foldOf));
  const goesOn = isBusy(state) ? null : endOf(state);
  const notices = state.notices.filter((notice) => !isSaid(notice, state.messages) && !(notice.isEnd && foldOf(notice.seq)));
  rows.push(...notices.map((notice) => ({ key: notice.key, kind: 'notice', seq: notice.seq, notice, goOn: notice === goesOn ? notice.goOn : '', settled: settledBy(notice, state) })));
  rows.push(...unanswered(state, foldOf));
  const isKnown = (row) => row.kind === 'message' || row.seq >= firstSeq || !state.older.more;
  return rows.filter(isKnown).sort((a, b) => a.seq - b.seq);
}

/** The notice of the newest run's end, if nothing was said since. */
function endOf({ notices, messages }) {
  const last = notices.findLast((notice) => notice.goOn);
  return last && (messages.at(-1)?.seq ?? 0) < last.seq ? last : null;
}

/** What came of a failure since: `answered`, or `failed` once more; nothing yet. */
function settledBy({ tone, seq }, { messages, notices }) {
  if (tone !== 'failure') return '';
  if (messages.some((message) => message.seq > seq && message.kind === 'model' && !message.interrupted)) return 'answered';
  return notices.some((other) => other.seq > seq && other.tone === 'failure') ? 'failed' : '';
}

/** Where an answer says itself that it was stopped, nothing else has to. */
function isSaid({ isStop, seq }, messages) {
  return Boolean(isStop) && messages.findLast((message) => message.seq < seq)?.interrupted === 'cancelled';
}

const NO_ANSWER = { tone: 'quiet', text: 'No answer came to this message.' };

/** Turns that end without an answer, where nothing says why: the reason is not in what was fetched. */
function unanswered({ messages, notices }, foldOf) {
  const ended = messages.filter((message, at) => {
    const next = messages[at + 1];
    if (message.kind !== 'typed' || next?.kind !== 'typed' || foldOf(message.seq)) return false;
    return !notices.some((notice) => notice.seq > message.seq && notice.seq < next.seq);
  });
  return ended.map(({ id, seq }) => ({ key: `unanswered-${id}`, kind: 'notice', seq: seq + 0.4, notice: NO_ANSWER, goOn: '', settled: '' }));
}

function editRows(edits, foldOf) {
  const prunes = edits.filter((edit) => edit.kind === 'prune' && edit.active && !foldOf(edit.seq));
  const undone = edits.filter((edit) => !edit.active);
  return [
    ...prunes.map((edit) => ({ key: `prune-${edit.id}`, kind: 'prune', seq: edit.seq, edit, undo: undoOf(edit, edits) })),
    ...undone.map((edit) => ({ key: `restored-${edit.id}`, kind: 'restored', seq: edit.seq, edit })),
  ];
}

function messageRow({ message, before, trail }, cleared, messages) {
  const newest = trail ?? message;
  const gone = message.calls.filter((call) => call.result && cleared.has(call.result.seq));
  return {
    key: message.id, kind: 'message', seq: message.seq, message,
    cleared: gone.map((call) => call.callId).join(' '),
    ...(before.length ? { before } : {}),
    ...(trail ? { trail } : {}),
    ...(isLost(newest) && messages.at(-1).seq > newest.seq && messages.some((other) => other.seq > newest.seq && other.kind === 'model') ? { settled: true } : {}),
  };
}

/** The answer in flight comes last, or in place of the message that it goes on with. */
function withAnswer(rows, { answer, seq }) {
  if (!answer) return rows;
  const known = rows.findIndex((row) => row.key === answer.messageId);
  const begun = known >= 0 ? rows[known].message : { calls: [], media: [], seq: seq + 0.6 };
  const message = {
    ...begun, id: answer.messageId, kind: 'model', text: answer.text, reasoning: answer.reasoning,
    begunAt: answer.begunAt, interrupted: undefined,
  };
  const number = known >= 0 ? 0 : brokenBefore(rows);
  const rest = rows.slice(0, rows.length - number);
  const before = known >= 0 ? brokenOff(rows[known]) : rows.slice(rest.length).flatMap(allOf);
  const row = {
    key: answer.messageId, kind: 'message', seq: begun.seq, message, cleared: '', live: true, ...(before.length ? { before } : {}),
  };
  if (known >= 0) return rows.with(known, rows[known].speaks ? { ...row, speaks: true } : row);
  return [...rest, rest.at(-1)?.message?.kind === 'model' ? row : { ...row, speaks: true }];
}

/** What broke off of an answer that goes on. */
function brokenOff({ before = [], trail }) {
  return trail ? [...before, trail] : before;
}

/** Who speaks is said once, until somebody else does or something else stands in between. */
function withSpeakers(rows) {
  let speaker = null;
  return rows.map((row) => {
    if (row.kind !== 'message') {
      speaker = null;
      return row;
    }
    const says = row.message.kind !== speaker;
    speaker = row.message.kind;
    return says ? { ...row, speaks: true } : row;
  });
}

function kept(rows, before) {
  const known = new Map(before.map((row) => [row.key, row]));
  return rows.map((row) => {
    const old = known.get(row.key);
    return old && isSame(old, row) ? old : row;
  });
}

function isSame(one, other) {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => (
    Array.isArray(one[key])
      ? one[key].length === other[key].length && one[key].every((item, at) => item === other[key][at])
      : one[key] === other[key]
  ));
}
