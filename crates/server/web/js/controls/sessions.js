// The list of sessions: newest first, with what each is doing; found by words, renamed, deleted.
import { button, byId, h, setText } from '../dom.js';
import { ago, excerpt, firstLine } from '../text/format.js';
import { askText, confirmed } from './dialog.js';

export const STATUS_WORDS = {
  idle: 'at rest', streaming: 'writing', executing_tools: 'running tools', waiting_approval: 'waiting for you',
  compacting: 'making room', parked: 'parked',
};

export class Sessions {
  /** `open(id)`, `fresh()`, `rename(id, title)`, `remove(id)`, `search(words)` */
  constructor(actions) {
    this.actions = actions;
    this.list = byId('sessions');
    this.search = byId('session-search');
    this.said = byId('sessions-said');
    this.items = new Map();
    this.sessions = null;
    this.found = [];
    byId('new-session').addEventListener('click', () => actions.fresh());
    this.search.addEventListener('input', () => this.searched());
  }

  searched() {
    this.draw();
    clearTimeout(this.timer);
    const words = this.search.value.trim();
    this.found = [];
    if (words.length < 2) return;
    this.timer = setTimeout(async () => {
      const found = await this.actions.search(words).catch(() => []);
      if (this.search.value.trim() !== words) return;
      this.found = found;
      this.draw();
    }, 250);
  }

  update(sessions, currentId) {
    this.sessions = sessions;
    this.currentId = currentId;
    this.draw();
  }

  fail(problem) {
    if (!this.sessions) setText(this.said, problem.message);
  }

  draw() {
    const sessions = this.sessions ?? [];
    const words = this.search.value.trim().toLowerCase();
    const hits = new Map(this.found.toReversed().map((hit) => [hit.sessionId, hit]));
    const listed = new Set(sessions.map((each) => each.id));
    const beyond = [...hits.values()].filter((hit) => !listed.has(hit.sessionId));
    const shown = [
      ...sessions.filter((each) => !words || titleOf(each).toLowerCase().includes(words) || hits.has(each.id)),
      ...beyond.map((hit) => ({ id: hit.sessionId, title: hit.title, status: 'idle', updatedAt: hit.at })),
    ];
    const ids = new Set(shown.map((each) => each.id));
    for (const [id, item] of this.items) {
      if (ids.has(id)) continue;
      item.element.remove();
      this.items.delete(id);
    }
    shown.forEach((session, at) => {
      const item = this.items.get(session.id) ?? this.make(session);
      this.fill(item, session, words ? excerpt(hits.get(session.id)?.text ?? '', words) : null);
      if (this.list.children[at] !== item.element) this.list.insertBefore(item.element, this.list.children[at] ?? null);
    });
    if (this.sessions) setText(this.said, shown.length ? '' : words ? 'Nothing was found.' : 'No session yet.');
  }

  make({ id }) {
    const item = {
      dot: h('span.dot', { 'aria-hidden': 'true' }), title: h('span.session-title'), meta: h('span.session-meta.numbers'), snippet: h('span.session-snippet', { hidden: true }),
    };
    item.link = h('a.session-link', { href: `#/s/${id}` }, item.dot, h('span.session-words', {}, item.title, item.snippet), item.meta);
    const rename = button('Rename', { symbol: 'pencil', onlyIcon: true, onclick: () => this.rename(id) });
    const remove = button('Delete', { symbol: 'trash', onlyIcon: true, onclick: () => this.remove(id) });
    item.element = h('li.session', {}, item.link, h('span.session-actions', {}, rename, remove));
    this.items.set(id, item);
    return item;
  }

  fill(item, session, snippet) {
    const title = titleOf(session);
    setText(item.title, title);
    setText(item.meta, session.status === 'idle' ? ago(session.updatedAt, Date.now()) : '');
    item.snippet.hidden = !snippet;
    setText(item.snippet, snippet ?? '');
    item.element.dataset.status = session.status;
    const isCurrent = session.id === this.currentId;
    if (isCurrent) item.link.setAttribute('aria-current', 'page');
    else item.link.removeAttribute('aria-current');
    const label = `${title}, ${STATUS_WORDS[session.status] ?? session.status}`;
    if (item.label !== label) {
      item.label = label;
      item.link.setAttribute('aria-label', label);
      item.link.title = label;
    }
  }

  async rename(id) {
    const session = this.sessions.find((each) => each.id === id);
    const title = await askText({ title: 'Rename the session', label: 'Title', value: session?.title ?? '', action: 'Rename' });
    if (title) await this.actions.rename(id, title);
  }

  async remove(id) {
    const session = this.sessions.find((each) => each.id === id);
    const sure = await confirmed({
      title: `Delete “${firstLine(titleOf(session ?? {}), 60)}”?`, text: 'The session and everything said in it goes for good. There is no undo; /export saves it first.',
      action: 'Delete for good', danger: true,
    });
    if (sure) await this.actions.remove(id);
  }
}

export function titleOf(session) {
  return session.title?.trim() || 'Untitled';
}

