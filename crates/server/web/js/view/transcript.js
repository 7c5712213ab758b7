// The conversation: rows of the state in a window.
import { button, byId, h } from '../dom.js';
import { allOf } from '../state/answers.js';
import { rowMaker } from '../state/rows.js';
import { FoldView, NoticeView, PruneView, RestoredView } from './edit.js';
import { MessageView } from './message.js';
import { Windowed } from './window.js';
import { Marks, point } from './found.js';

const VIEWS = { message: MessageView, fold: FoldView, prune: PruneView, restored: RestoredView, notice: NoticeView };

/** How near to the top, in pixels, older messages are fetched. */
const NEAR_TOP = 2_500;
/** Pages fetched by themselves where what is known does not fill the window. */
const FILLING_PAGES = 2;

export class Transcript {
  constructor(context) {
    this.context = Object.assign(Object.create(context), {
      reveal: (key) => this.reveal(key),
      refold: (id) => this.setUnfolded(id, false),
      callsAt: (seqs) => this.callsAt(new Set(seqs)),
      summaries: (id) => this.state?.summaries[id]?.parts ?? [],
    });
    this.scroller = byId('scroller');
    this.jump = byId('jump');
    this.head = h('p.older', { hidden: true }, button('Earlier messages', { symbol: 'expand', onclick: () => this.context.loadOlder() }));
    this.list = new Windowed(this.scroller, {
      make: (row) => new VIEWS[row.kind](row, this.context),
      guess,
      onMove: () => this.moved(),
      head: this.head,
      tail: h('div.end'),
    });
    this.jump.addEventListener('click', () => {
      this.list.toEnd();
      this.scroller.focus({ preventScroll: true });
    });
    setInterval(() => this.tick(), 1_000);
    this.reset();
  }

  reset() {
    this.rows = rowMaker();
    this.unfolded = new Set();
    this.state = null;
    this.filled = 0;
    this.head.hidden = true;
    this.list.clear();
  }

  update(state) {
    this.foldQuietly(state);
    this.state = state;
    const rows = this.rows(state, this.unfolded);
    if (rows !== this.shown) {
      this.shown = rows;
      this.list.setRows(rows);
    }
    this.head.hidden = !state.older.more;
    this.fill();
  }

  /** What is being read is not folded under the reader's eyes. */
  foldQuietly(state) {
    if (!this.state || this.state.edits === state.edits || this.list.isPinned) return;
    const known = new Set(this.state.edits.map((edit) => edit.id));
    const fresh = state.edits.filter((edit) => !known.has(edit.id) && edit.kind === 'compaction');
    if (fresh.length && this.state.messages.length) this.unfolded = new Set([...this.unfolded, ...fresh.map((edit) => edit.id)]);
  }

  setUnfolded(id, is) {
    const next = new Set(this.unfolded);
    if (is) next.add(id);
    else next.delete(id);
    this.unfolded = next;
    this.update(this.state);
  }

  reveal(key) {
    const view = this.list.reveal(this.rowOf(key));
    view?.element.querySelector('button, [tabindex]')?.focus({ preventScroll: true });
    return view;
  }

  /** The key of the row in which a message stands, also as a piece of an answer. */
  rowOf(id) {
    const has = (row) => row.message && allOf(row).some((message) => message.id === id);
    return this.shown.find((row) => row.key === id || has(row))?.key ?? id;
  }

  /** Brings the row of a compaction into sight and opens it. */
  revealEdit(id) {
    const row = this.shown.findLast((each) => each.edit?.id === id) ?? this.shown.find((each) => each.inner?.some((edit) => edit.id === id));
    const view = row && this.reveal(row.key);
    view?.toggle?.(true);
  }

  /** Brings a question into sight, with the focus on its answer. */
  revealCall(callId) {
    const message = this.state.messages.findLast((each) => each.calls.some((call) => call.callId === callId));
    if (message) this.reveal(message.id)?.focusAnswer(callId);
  }

  /** Brings what was said at a position into sight and marks it; what is folded there is unfolded where it was. */
  revealSeq(seq) {
    const fold = this.shown.find((row) => row.kind === 'fold' && !row.unfolded && row.from <= seq && seq <= row.to);
    if (fold) this.setUnfolded(fold.edit.id, true);
    const { messages } = this.state;
    const message = messages.findLast((each) => each.seq === seq || each.calls.some((call) => call.result?.seq === seq))
      ?? messages.findLast((each) => each.seq <= seq) ?? messages[0];
    const view = message && this.list.reveal(this.rowOf(message.id));
    if (!view) return;
    view.openCallAt?.(seq);
    point(view.element);
    this.mark(this.words);
  }

  /** Marks words wherever they are in sight; none if there are none. */
  mark(words = []) {
    this.words = words;
    this.marks ??= new Marks(this.scroller);
    this.marks.show(words);
  }

  callsAt(seqs) {
    const found = [];
    for (const message of this.state?.messages ?? []) {
      for (const call of message.calls) if (seqs.has(call.result?.seq)) found.push({ call, messageId: message.id });
    }
    return found;
  }

  /** Where everything known is folded into little, more is fetched. */
  fill() {
    const { scrollHeight, clientHeight } = this.scroller;
    if (!this.state.older.more || scrollHeight > clientHeight + 200 || this.filled >= FILLING_PAGES) return;
    if (this.filledBefore === this.state.older.before) return;
    this.filledBefore = this.state.older.before;
    this.filled += 1;
    this.context.loadOlder();
  }

  moved() {
    const isAway = !this.list.isPinned && this.list.fromEnd() > 200;
    if (this.jump.hidden === isAway) this.jump.hidden = !isAway;
    if (this.scroller.scrollTop < NEAR_TOP && !this.list.isPinned) this.context.loadOlder();
  }

  tick() {
    if (!this.state || document.hidden) return;
    const now = Date.now();
    for (const view of this.list.mounted.values()) view.tick?.(now);
  }
}

/** A height before it is known. */
function guess(row) {
  if (row.kind !== 'message') return 40;
  const { text, calls } = row.message;
  return 20 + Math.ceil(text.length / 75) * 24 + calls.length * 30;
}
