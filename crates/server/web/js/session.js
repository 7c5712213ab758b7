// One open session: what was stored is fetched, what happens is watched, and every piece goes through the reducer.
import { api } from './net/api.js';
import { watch } from './net/stream.js';
import { reduce } from './state/reduce.js';
import { emptyState } from './state/state.js';

const FIRST_PAGE = 150;
const OLDER_PAGE = 300;
/** Pages fetched for one place at most: a place further back is not reached by itself. */
const PLACE_PAGES = 40;
const PLACE_PAGE = 500;
const NEWEST = Number.MAX_SAFE_INTEGER;
/** Stored events looked through for the last estimates. */
const RECENT_EVENTS = 80;

export class OpenSession {
  /** `onChange(state)` hears of each change, `onEvents(events, state)` of what happened, `onConnection(state)` of the line. */
  constructor(id, { onChange, onEvents, onConnection }) {
    Object.assign(this, { id, onChange, onEvents, onConnection });
    this.state = emptyState(id);
    this.isClosed = false;
    this.later = new Map();
  }

  async load() {
    const [page, session, { compactions }] = await Promise.all([
      api.messages(this.id, { before: NEWEST, limit: FIRST_PAGE }), api.session(this.id), api.compactions(this.id),
    ]);
    if (this.isClosed) return;
    this.apply([
      { name: 'page:messages', ...page, isOlder: true }, { name: 'page:compactions', compactions },
      { name: 'page:session', session, at: Date.now() },
    ]);
    this.refreshContext();
    if (session.status === 'waiting_approval') this.refreshApprovals();
    // What was stored while the pages were fetched is told again: the state takes it twice without harm, and what is
    // no news is not announced.
    this.newsFrom = session.lastSeq;
    this.watch = watch(this.id, page.messages.at(-1)?.seq ?? 0, {
      onEvents: (events) => this.told(events),
      onState: (line) => {
        if (this.isClosed) return;
        if (line.state === 'open') this.apply([{ name: 'page:connected' }]);
        this.onConnection(line);
      },
    });
  }

  close() {
    this.isClosed = true;
    this.watch?.stop();
    this.later.forEach((timer) => clearTimeout(timer));
  }

  apply(events) {
    if (this.isClosed) return;
    const before = this.state;
    this.state = events.reduce(reduce, before);
    if (this.state !== before) this.onChange(this.state, before);
  }

  told(events) {
    if (this.isClosed) return;
    this.apply(events);
    this.onEvents(events.filter((event) => event.seq === undefined || event.seq > this.newsFrom), this.state);
    this.newsFrom = Math.max(this.newsFrom, ...events.map((event) => event.seq ?? 0));
    const names = new Set(events.map((event) => event.name));
    const has = (...all) => all.some((name) => names.has(name));
    if (has('stream:gap')) this.soon('reload', 0, () => this.reload());
    if (has('message:queued', 'message:edited')) this.soon('queue', 60, () => this.refreshQueue());
    if (has('context:compressed', 'context:pruned', 'context:restored')) this.soon('edits', 0, () => this.refreshEdits(events));
    // How full the window is decides also which edits could be undone; it is asked once a run, not at each step.
    else if (has('run:complete') && this.state.edits.some((edit) => edit.active)) this.soon('offers', 400, () => this.refreshOffers());
    if (has('context:usage', 'context:restored', 'llm:tool-result', 'llm:switched', 'message:added', 'run:complete')) this.soon('context', 250, () => this.refreshContext());
    if (events.some((event) => event.name === 'run:complete' && event.finishReason !== 'stop')) this.soon('end', 50, () => this.refreshEnd());
    if (has('llm:response')) this.soon('cost', 400, () => this.refreshSession());
    if (has('run:complete', 'run:started', 'queue:snapshot', 'context:compacting', 'context:compressed', 'context:compact-failed')) this.soon('session', 50, () => this.refreshSession());
  }

  /** Once, when no more of the same came for a while. */
  soon(what, ms, work) {
    clearTimeout(this.later.get(what));
    this.later.set(what, setTimeout(() => {
      this.later.delete(what);
      Promise.resolve(work()).catch(() => {});
    }, ms));
  }

  async refreshContext() {
    this.apply([{ name: 'page:report', report: await api.context(this.id) }]);
  }

  async refreshSession() {
    const session = await api.session(this.id);
    this.apply([{ name: 'page:session', session, at: Date.now() }]);
    if (session.status === 'waiting_approval') await this.refreshApprovals();
  }

  /** How the newest answer was cut off, which the stream does not say. */
  async refreshEnd() {
    const after = (this.state.messages.at(-3)?.seq ?? 1) - 1;
    const { messages } = await api.messages(this.id, { after, limit: 50 });
    this.apply([{ name: 'page:messages', messages }]);
  }

  async refreshApprovals() {
    this.apply([{ name: 'page:approvals', ...await api.approvals(this.id) }]);
  }

  async refreshQueue() {
    this.apply([{ name: 'queue:snapshot', ...await api.queue(this.id) }]);
  }

  /** Which edits could be undone now. */
  async refreshOffers() {
    this.apply([{ name: 'page:compactions', ...await api.compactions(this.id) }]);
  }

  /** Which messages an edit covers, and what stands for them. */
  async refreshEdits(events) {
    const seqs = events.filter((event) => event.name.startsWith('context:') && event.compactionId && event.seq).map((event) => event.seq);
    const [{ compactions }, page] = await Promise.all([
      api.compactions(this.id),
      seqs.length ? api.messages(this.id, { after: Math.min(...seqs) - 1, limit: 50 }) : { messages: [] },
    ]);
    const summaries = page.messages.filter((message) => message.isSummary);
    this.apply([{ name: 'page:messages', messages: summaries }, { name: 'page:compactions', compactions }]);
    await this.refreshContext();
  }

  /** What stands for a compaction that lies before what was fetched. */
  async loadSummary(edit) {
    if (this.state.summaries[edit.id]) return;
    const page = await api.messages(this.id, { after: edit.seq - 1, limit: 20 });
    const mine = page.messages.filter((message) => message.isSummary && message.id === edit.id);
    if (mine.length) this.apply([{ name: 'page:messages', messages: mine }]);
  }

  async loadOlder() {
    if (!this.state.older.more || this.isLoadingOlder) return;
    this.isLoadingOlder = true;
    try {
      await this.fetchOlder(OLDER_PAGE);
    } finally {
      this.isLoadingOlder = false;
    }
  }

  /** Older messages are fetched until a position is among what is known. */
  async loadTo(seq) {
    this.isLoadingOlder = true;
    try {
      for (let pages = 0; pages < PLACE_PAGES && this.lacks(seq); pages += 1) await this.fetchOlder(PLACE_PAGE);
    } finally {
      this.isLoadingOlder = false;
    }
  }

  lacks(seq) {
    const { older, messages } = this.state;
    return !this.isClosed && older.more && (messages[0]?.seq ?? Infinity) > seq;
  }

  async fetchOlder(limit) {
    const page = await api.messages(this.id, { before: this.state.older.before, limit });
    this.apply([{ name: 'page:messages', ...page, isOlder: true }]);
  }

  /** The last estimates, which only the log has: its newest events are read once. */
  async loadEstimates() {
    if (this.state.estimates.length >= 5 || this.hasEstimates) return;
    this.hasEstimates = true;
    const from = Math.max(0, this.state.seq - RECENT_EVENTS);
    await new Promise((resolve) => {
      const look = watch(this.id, from, {
        onEvents: (events) => {
          this.apply(events.filter((event) => event.name === 'context:estimate'));
          if (events.some((event) => event.name === 'queue:snapshot')) {
            look.stop();
            resolve();
          }
        },
        onState: ({ state }) => {
          if (state === 'open') return;
          look.stop();
          resolve();
        },
      });
    });
  }

  /** Begins anew from what is stored. */
  async reload() {
    this.watch?.stop();
    this.state = emptyState(this.id);
    await this.load();
  }
}
