// The page: puts its pieces together.
import { announce } from './controls/announce.js';
import { Banner } from './controls/banner.js';
import { Composer } from './controls/composer.js';
import { askText } from './controls/dialog.js';
import { Drawer } from './controls/drawer.js';
import { Header } from './controls/header.js';
import { openHelp } from './controls/help.js';
import { listenForKeys } from './controls/keys.js';
import { showLogin } from './controls/login.js';
import { ModelMenu } from './controls/model.js';
import { Queue } from './controls/queue.js';
import { Sessions, titleOf } from './controls/sessions.js';
import { openSettings } from './controls/settings.js';
import { Status } from './controls/status.js';
import { currentTheme, nextTheme, setTheme } from './controls/theme.js';
import { closeToast, toast } from './controls/toast.js';
import { sendCommand } from './commands.js';
import { byId } from './dom.js';
import { SessionList } from './list.js';
import { Meter } from './meter/meter.js';
import { Panel } from './meter/panel.js';
import { api } from './net/api.js';
import { news } from './news.js';
import { Opening } from './opening.js';
import { currentId, go, listed, page, state, tell } from './page.js';
import { send, stop } from './sending.js';
import { entryText } from './state/queue.js';
import { isBusy } from './state/state.js';
import { Transcript } from './view/transcript.js';

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
const drawer = new Drawer();
const status = new Status({
  look: state, review: (callId) => transcript.revealCall(callId), goOn: () => api.resume(currentId()).catch(tell),
});
const queue = new Queue({
  edit: (entry) => composer.edit({ ...entry, text: entryText(entry) }),
  remove: (id) => api.removeQueued(currentId(), id).catch(tell),
});
const composer = new Composer({
  send: async (text, files) => {
    if (!await send(text, files)) transcript.list.toEnd();
    list.refresh();
  },
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
    await list.refresh();
  },
  search: (words) => api.search(words),
  found: (words) => transcript.mark(words),
});
const list = new SessionList(sessions, () => header.update(state(), listed()));
const header = new Header({
  rename: async () => {
    const title = await askText({ title: 'Rename the session', label: 'Title', value: state().session?.title ?? '', action: 'Rename' });
    if (title) await rename(currentId(), title);
  },
  command: (name) => sendCommand({ name, rest: '' }, commandActions).catch(tell),
});
const models = new ModelMenu({
  current: () => ({ current: state().session?.model?.model ?? null, agent: state().session?.agent ?? null }),
  choose: async (choice) => {
    const answer = await api.switchModel(currentId(), choice);
    await page.open?.refreshSession();
    if (answer.when === 'next-step') toast({ title: 'The model changes at the next step', lines: ['What is being written now is finished first.'] });
    return answer;
  },
});
const opening = new Opening({
  transcript, composer, panel, banner, list, draw, drawNow,
  told: (events, now) => {
    news(events, now, newsActions);
    list.told(events);
  },
});

const commandActions = {
  currentId, go, openHelp, toast,
  refreshList: () => list.refresh(),
  edits: () => state().edits,
  title: () => titleOf(state().session ?? {}),
  rename: (title) => rename(currentId(), title),
  model: (name) => (name ? models.choose({ model: name }) : models.open()),
};

const newsActions = {
  undo: (id) => api.undo(currentId(), id),
  reveal: (id) => transcript.revealEdit(id),
  toast, announce,
};

async function rename(id, title) {
  const session = await api.rename(id, title);
  if (id === currentId()) page.open.apply([{ name: 'page:session', session, at: Date.now() }]);
  await list.refresh();
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
  header.update(now, listed());
  status.draw();
  composer.update({ isBusy: Boolean(currentId()) && isBusy(now), canStop: isBusy(now) });
  if (composer.editing && !now.queue.some((entry) => entry.id === composer.editing)) composer.stopEditing(true);
}

/** Esc: closes what is open, the nearest first; else stops the agent. */
function escape() {
  if (drawer.isOpen) drawer.toggle(false);
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
  document.querySelectorAll('[data-close]').forEach((each) => each.addEventListener('click', () => each.closest('dialog').close()));
  listenForKeys({
    escape, neighbour: (step) => list.neighbour(step), help: openHelp, settings: openSettings,
    panel: () => currentId() && panel.toggle(), fresh: () => go('#/'), field: () => composer.input.focus(),
    search: () => drawer.search(),
  });
  list.watch();
  if (location.hash === '#opening-link-spent') {
    showLogin('This opening link was used before, or is older than ten minutes.');
    return;
  }
  list.refresh();
  opening.follow();
}

begin();
