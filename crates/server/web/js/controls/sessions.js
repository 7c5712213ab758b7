// The list of sessions: newest first, with what each is doing; found by words, renamed, deleted.
import { button, byId, h, setText, show } from '../dom.js';
import { addressOf } from '../text/address.js';
import { ago, count, firstLine, plural } from '../text/format.js';
import { foundSessions, leftOutOfSearch, passage, wordsOf } from '../text/hits.js';
import { askText, confirmed } from './dialog.js';

export const STATUS_WORDS = {
  idle: 'at rest', streaming: 'writing', executing_tools: 'running tools', waiting_approval: 'waiting for you',
  compacting: 'compacting', waiting_for_server: 'waiting for its model server', parked: 'parked', failed: 'failed: open it to try again',
};

/** The same where there is little room. */
const BUSY = { streaming: 'writing', executing_tools: 'tools', waiting_approval: 'asks you', compacting: 'compacts', waiting_for_server: 'no server', parked: 'parked', failed: 'failed' };

const WHO = { user: 'you ', assistant: 'agent ', tool: 'tool ' };

/** Letters from which on what was said is searched, and the pause in typing before it. */
const SHORTEST = 2;
const PAUSE_MS = 250;

const NONE = [];

export class Sessions {
  /** `fresh()`, `rename(id, title)`, `remove(id)`, `search(query)`; `found(words)` hears what is searched for. */
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
    byId('drawer').addEventListener('keydown', (event) => this.key(event));
  }

  get query() {
    return this.search.value.trim();
  }

  searched() {
    clearTimeout(this.timer);
    const { query } = this;
    [this.found, this.searchSaid] = [[], ''];
    this.actions.found(query.length < SHORTEST ? [] : wordsOf(query));
    this.isSearching = query.length >= SHORTEST;
    this.draw();
    if (this.isSearching) this.timer = setTimeout(() => this.ask(query), PAUSE_MS);
  }

  async ask(query) {
    let said = '';
    let found = [];
    try {
      const answer = await this.actions.search(query);
      found = foundSessions(answer.hits);
      said = leftOutOfSearch(answer);
    } catch (problem) {
      said = problem.message;
    }
    if (this.query !== query) return;
    [this.found, this.searchSaid, this.isSearching] = [found, said, false];
    this.draw();
  }

  /** Down from the field into the list, and along it; Enter in the field opens what was found first. */
  key(event) {
    const links = [...this.list.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    const isField = document.activeElement === this.search;
    if (!links.length || event.altKey || (at < 0 && !isField)) return;
    if (event.key === 'Enter' && isField && this.query) (this.list.querySelector('.hit') ?? links[0]).click();
    else if (event.key === 'ArrowDown') links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === 'ArrowUp' && at > 0) links[at - 1].focus();
    else if (event.key === 'ArrowUp' && at === 0) this.search.focus();
    else return;
    event.preventDefault();
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
    const words = wordsOf(this.query);
    const found = new Map(this.found.map((each) => [each.id, each]));
    const listed = new Set(sessions.map((each) => each.id));
    const inTitle = (session) => words.every((word) => titleOf(session).toLowerCase().includes(word));
    const shown = [
      ...sessions.filter((each) => inTitle(each) || found.has(each.id)),
      ...this.found.filter(({ id }) => !listed.has(id)).map(({ id, title, at }) => ({ id, title, status: 'idle', updatedAt: at })),
    ];
    const ids = new Set(shown.map((each) => each.id));
    for (const [id, item] of this.items) {
      if (ids.has(id)) continue;
      item.element.remove();
      this.items.delete(id);
    }
    shown.forEach((session, at) => {
      const item = this.items.get(session.id) ?? this.make(session);
      this.fill(item, session);
      this.fillHits(item, session, found.get(session.id)?.places ?? NONE, words);
      if (this.list.children[at] !== item.element) this.list.insertBefore(item.element, this.list.children[at] ?? null);
    });
    if (this.sessions) setText(this.said, this.words(shown.length));
  }

  words(number) {
    if (this.searchSaid) return this.searchSaid;
    if (number) return '';
    if (this.isSearching) return 'Searching …';
    return this.query ? 'Nothing was found.' : 'No session yet.';
  }

  make({ id }) {
    const item = {
      dot: h('span.dot', { 'aria-hidden': 'true' }), title: h('span.session-title'), meta: h('span.session-meta.numbers'), hits: h('ul.hits', { hidden: true }),
    };
    item.link = h('a.session-link', { href: addressOf(id) }, item.dot, item.title, item.meta);
    const rename = button('Rename', { symbol: 'pencil', onlyIcon: true, onclick: () => this.rename(id) });
    const remove = button('Delete', { symbol: 'trash', onlyIcon: true, onclick: () => this.remove(id) });
    item.element = h('li.session', {}, item.link, h('span.session-actions', {}, rename, remove), item.hits);
    this.items.set(id, item);
    return item;
  }

  /** What was found in a session, each passage a way to its place. */
  fillHits(item, { id }, places, words) {
    if (item.places === places) return;
    item.places = places;
    item.hits.hidden = places.length === 0;
    show(item.hits, places.map(({ seq, role, text }) => h(
      'li', {},
      h(
        'a.hit', { href: addressOf(id, seq), onclick: () => again(addressOf(id, seq)) },
        h('span.hit-who', {}, WHO[role] ?? ''),
        passage(text, words).map((piece) => (piece.isWord ? h('mark', {}, piece.text) : piece.text)),
      ),
    )));
  }

  fill(item, session) {
    const title = titleOf(session);
    setText(item.title, title);
    const waits = session.status === 'idle' ? session.queued ?? 0 : 0;
    const status = standing(session);
    setText(item.meta, waits ? `${count(waits)} ${waits === 1 ? 'waits' : 'wait'}` : BUSY[status] ?? ago(session.updatedAt, Date.now()));
    item.element.dataset.status = waits ? 'held' : status;
    const isCurrent = session.id === this.currentId;
    if (isCurrent) item.link.setAttribute('aria-current', 'page');
    else item.link.removeAttribute('aria-current');
    const label = `${title}, ${waits ? `${plural(waits, 'message')} waiting for you to go on` : STATUS_WORDS[status] ?? status}`;
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
      title: `Delete “${firstLine(titleOf(session ?? {}), 60)}”?`, text: 'The session and all its messages are deleted for good. There is no undo; /export saves a copy first.',
      action: 'Delete for good', danger: true,
    });
    if (sure) await this.actions.remove(id);
  }
}

/** How a session stands: as the server says, and `failed` where nothing runs since a run that failed. Pure. */
export function standing({ status, lastFinishReason }) {
  return status === 'idle' && lastFinishReason === 'error' ? 'failed' : status;
}

export function titleOf(session) {
  return session.title?.trim() || 'Untitled';
}

/** The address that is open already leads to its place once more. */
function again(address) {
  if (location.hash === address) dispatchEvent(new HashChangeEvent('hashchange'));
}
