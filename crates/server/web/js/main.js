// The page: puts its pieces together and follows the address.
import { announce } from './controls/announce.js';
import { Composer } from './controls/composer.js';
import { askText } from './controls/dialog.js';
import { hideEmpty, showEmpty } from './controls/empty.js';
import { openHelp } from './controls/help.js';
import { listenForKeys } from './controls/keys.js';
import { showLogin } from './controls/login.js';
import { Queue } from './controls/queue.js';
import { Sessions, titleOf } from './controls/sessions.js';
import { openSettings } from './controls/settings.js';
import { closeToast, toast } from './controls/toast.js';
import { currentTheme, nextTheme, setTheme } from './controls/theme.js';
import { Banner } from './controls/banner.js';
import { Header } from './controls/header.js';
import { byId, setText } from './dom.js';
import { news } from './news.js';
import { Meter } from './meter/meter.js';
import { Panel } from './meter/panel.js';
import { api } from './net/api.js';
import { OpenSession } from './session.js';
import { entryText } from './state/queue.js';
import { emptyState, isBusy } from './state/state.js';
import { Transcript } from './view/transcript.js';
import { statusLine } from './view/now.js';
import { sendCommand } from './commands.js';

/** What changes how a session stands in the list. */
const CHANGES_LIST = new Set(['run:started', 'run:complete', 'tool:approval-request', 'tool:approval-response', 'session:parked']);

/** The list is looked at again while the page is in sight. */
const LIST_MS = 5_000;

const page = { open: null, sessions: [], hasList: false };
const state = () => page.open?.state ?? emptyState(null);
const currentId = () => page.open?.id ?? null;

const transcript = new Transcript({
  get sessionId() { return currentId(); },
  decide: (id, decision, reason) => api.decide(currentId(), id, decision, reason),
  recall: (handle) => api.recall(currentId(), handle),
  undo: (id) => api.undo(currentId(), id),
  release: (id) => api.release(currentId(), id).then(() => page.open.refreshEdits([])),
  needSummary: (edit) => page.open?.loadSummary(edit),
  loadOlder: () => page.open?.loadOlder().catch(() => {}),
});

const panel = new Panel({
  onOpen: () => {
    page.open?.refreshContext().catch(() => {});
    page.open?.loadEstimates().catch(() => {});
    requestAnimationFrame(draw);
  },
  onReveal: (id) => {
    if (matchMedia('(max-width: 900px)').matches) panel.close();
    transcript.revealEdit(id);
  },
});
const meter = new Meter(() => panel.toggle());
const banner = new Banner(() => page.open?.watch?.retry());
const queue = new Queue({
  edit: (entry) => composer.edit({ ...entry, text: entryText(entry) }),
  remove: (id) => api.removeQueued(currentId(), id).catch(tell),
});
const composer = new Composer({
  send,
  command: (command) => sendCommand(command, commandActions),
  editQueued: (id, text) => api.editQueued(currentId(), id, text),
  stop,
  lastQueued: () => {
    const entry = state().queue.findLast((each) => each.parts);
    return entry && { ...entry, text: entryText(entry) };
  },
  changed: () => draw(),
});
const sessions = new Sessions({
  fresh: () => go('#/'),
  rename,
  remove: async (id) => {
    await api.remove(id).catch(tell);
    if (id === currentId()) go('#/');
    await refreshList();
  },
  search: async (words) => (await api.search(words)).hits,
});
const header = new Header({
  rename: async () => {
    const title = await askText({ title: 'Rename the session', label: 'Title', value: state().session?.title ?? '', action: 'Rename' });
    if (title) await rename(currentId(), title);
  },
  command: (name) => sendCommand({ name, rest: '' }, commandActions).catch(tell),
});

const commandActions = {
  currentId, go, refreshList, openHelp, undone: () => {},
  edits: () => state().edits,
  title: () => titleOf(state().session ?? {}),
  rename: (title) => rename(currentId(), title),
  toast,
};

async function rename(id, title) {
  const session = await api.rename(id, title);
  if (id === currentId()) page.open.apply([{ name: 'page:session', session, at: Date.now() }]);
  await refreshList();
}

/** A message goes to the open session; the first one begins it. */
async function send(text, files) {
  try {
    await sendNow(text, files);
  } catch (problem) {
    if (problem.status === 401) showLogin();
    throw problem;
  }
}

async function sendNow(text, files) {
  const content = files.length ? [...(text.trim() ? [{ type: 'text', text }] : []), ...files] : text;
  const wasNew = !currentId();
  const answer = await api.send(currentId() ?? undefined, content);
  if (wasNew) go(`#/s/${answer.sessionId}`);
  else transcript.list.toEnd();
  if (answer.queued) announce(answer.message);
  refreshList();
}

async function stop() {
  if (!currentId()) return;
  try {
    const { cancelled } = await api.cancel(currentId());
    announce(cancelled ? 'Stopped.' : 'Nothing was running.');
  } catch (problem) {
    tell(problem);
  }
}

function tell(problem) {
  if (problem.status === 401) {
    showLogin();
    return;
  }
  toast({ title: problem.message, tone: 'failure' });
}

function go(hash) {
  if (location.hash === hash || (hash === '#/' && location.hash === '')) follow();
  else location.hash = hash;
}

let frame = null;

/** All views, once a frame. */
function draw() {
  frame ??= requestAnimationFrame(() => {
    frame = null;
    drawNow();
  });
}

function drawNow() {
  const now = state();
  transcript.update(now);
  queue.update(now.queue);
  meter.update(now);
  panel.update(now);
  header.update(now, page.sessions.find((each) => each.id === currentId()));
  drawStatus();
  composer.update({ isBusy: Boolean(currentId()) && isBusy(now), canStop: isBusy(now) });
  if (composer.editing && !now.queue.some((entry) => entry.id === composer.editing)) composer.stopEditing(true);
}

function drawStatus() {
  const { text, tone, callId, canGoOn } = statusLine(state(), Date.now());
  const line = byId('status');
  setText(byId('status-text'), text);
  line.dataset.tone = tone;
  line.hidden = !text;
  const review = byId('status-review');
  review.hidden = !callId && !canGoOn;
  setText(review, canGoOn ? 'Go on' : 'Review');
  review.onclick = () => (canGoOn ? api.resume(currentId()).catch(tell) : transcript.revealCall(callId));
}

/** The address says which session is open. */
async function follow() {
  const id = location.hash.match(/^#\/s\/([\w-]+)$/)?.[1] ?? null;
  document.body.classList.remove('drawer-open');
  closeToast();
  if (id && id === currentId()) return;
  page.open?.close();
  page.open = null;
  transcript.reset();
  banner.hide();
  byId('loading').hidden = true;
  byId('failed').hidden = true;
  byId('meter').hidden = !id;
  sessions.update(page.hasList ? page.sessions : null, id);
  if (!id) {
    panel.close();
    draw();
    showEmpty(byId('empty'), { ask: (text, now) => { composer.setText(text); if (now) composer.submit(); else composer.input.focus(); } });
    composer.input.focus({ preventScroll: true });
    return;
  }
  hideEmpty();
  await openSession(id);
}

async function openSession(id) {
  const slow = setTimeout(() => { byId('loading').hidden = false; }, 150);
  const open = new OpenSession(id, {
    onChange: draw,
    onEvents: (events, now) => {
      news(events, now, newsActions);
      if (events.some((event) => CHANGES_LIST.has(event.name))) soonList();
    },
    onConnection: (line) => {
      if (line.problem?.status === 401) showLogin();
      else banner.update(line);
    },
  });
  page.open = open;
  try {
    await open.load();
    if (page.open !== open) return;
    drawNow();
    sessions.update(page.sessions, id);
    if (!matchMedia('(pointer: coarse)').matches) composer.input.focus({ preventScroll: true });
  } catch (problem) {
    if (page.open === open) failedToOpen(problem, id);
  } finally {
    clearTimeout(slow);
    if (page.open === open) byId('loading').hidden = true;
  }
}

function failedToOpen(problem, id) {
  page.open = null;
  if (problem.status === 401) {
    showLogin();
    return;
  }
  byId('failed').hidden = false;
  setText(byId('failed-text'), problem.status === 404 ? 'There is no such session here. It may have been deleted.' : `${problem.message} Everything that was said is kept.`);
  byId('failed-again').onclick = () => {
    byId('failed').hidden = true;
    openSession(id);
  };
}

const newsActions = {
  undo: (id) => api.undo(currentId(), id),
  reveal: (id) => transcript.revealEdit(id),
  toast, announce,
};

let listTimer = null;

function soonList() {
  clearTimeout(listTimer);
  listTimer = setTimeout(refreshList, 120);
}

async function refreshList() {
  try {
    const answer = await api.sessions();
    page.sessions = answer.sessions;
    page.hasList = true;
    sessions.update(page.sessions, currentId());
    header.update(state(), page.sessions.find((each) => each.id === currentId()));
  } catch (problem) {
    if (problem.status === 401) showLogin();
    else sessions.fail(problem);
  }
}

function neighbour(step) {
  const at = page.sessions.findIndex((each) => each.id === currentId());
  const next = page.sessions[at < 0 ? 0 : at + step];
  if (next) go(`#/s/${next.id}`);
}

function drawer(isOpen) {
  document.body.classList.toggle('drawer-open', isOpen);
  byId('drawer-toggle').setAttribute('aria-expanded', String(isOpen));
  if (isOpen) byId('session-search').focus();
}

/** Esc: closes what is open, the nearest first; else stops the agent. */
function escape() {
  if (document.body.classList.contains('drawer-open')) drawer(false);
  else if (closeToast()) return;
  else if (panel.isOpen && panel.element.contains(document.activeElement)) panel.close();
  else if (isBusy(state())) stop();
  else if (panel.isOpen) panel.close();
}

function begin() {
  setTheme(currentTheme());
  byId('settings-open').addEventListener('click', openSettings);
  byId('help-open').addEventListener('click', openHelp);
  byId('theme-toggle').addEventListener('click', () => {
    setTheme(nextTheme());
    announce(`Theme: ${currentTheme()}`);
  });
  byId('drawer-toggle').addEventListener('click', () => drawer(true));
  byId('drawer-shade').addEventListener('click', () => drawer(false));
  byId('drawer-close').addEventListener('click', () => drawer(false));
  document.querySelectorAll('[data-close]').forEach((each) => each.addEventListener('click', () => each.closest('dialog').close()));
  listenForKeys({
    escape, neighbour, help: openHelp, settings: openSettings, panel: () => currentId() && panel.toggle(),
    fresh: () => go('#/'), field: () => composer.input.focus(),
  });
  addEventListener('hashchange', follow);
  setInterval(() => { if (!document.hidden) refreshList(); }, LIST_MS);
  setInterval(() => { if (!document.hidden) drawStatus(); }, 1_000);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refreshList(); });
  if (location.hash === '#opening-link-spent') {
    showLogin('This opening link was used before, or is older than ten minutes.');
    return;
  }
  refreshList();
  follow();
}

begin();
