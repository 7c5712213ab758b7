// The page: puts its pieces together.
import { Allowed } from './controls/allowed.js';
import { announce } from './controls/announce.js';
import { Banner } from './controls/banner.js';
import { Composer } from './controls/composer.js';
import { askText } from './controls/dialog.js';
import { Drawer } from './controls/drawer.js';
import { showFolder } from './controls/folder.js';
import { Header } from './controls/header.js';
import { openHelp } from './controls/help.js';
import { listenForKeys } from './controls/keys.js';
import { showLogin } from './controls/login.js';
import { ModelMenu } from './controls/model.js';
import { Queue } from './controls/queue.js';
import { Sessions, titleOf } from './controls/sessions.js';
import { openSettings } from './controls/settings.js';
import { Status } from './controls/status.js';
import { currentTheme, otherTheme, setTheme } from './controls/theme.js';
import { closeToast, closeToastAbout, toast, toastHasFocus } from './controls/toast.js';
import { sendCommand } from './commands.js';
import { whoChanged } from './controls/empty.js';
import { byId } from './dom.js';
import { SessionList } from './list.js';
import { Meter } from './meter/meter.js';
import { Panel } from './meter/panel.js';
import { api } from './net/api.js';
import { news } from './news.js';
import { Opening } from './opening.js';
import { currentId, go, isFresh, listed, page, state, tell } from './page.js';
import { goOn, send, stop, switchModel, tryNow } from './sending.js';
import { newestUndo, undoOf } from './state/offers.js';
import { entryText } from './state/queue.js';
import { isBusy, isHeld } from './state/state.js';
import { refusedUndo } from './text/edits.js';
import { Transcript } from './view/transcript.js';

const transcript = new Transcript({
  get sessionId() { return currentId(); },
  decide: (id, decision, reason) => api.decide(currentId(), id, decision, reason),
  always: (id, scope) => api.decide(currentId(), id, 'allow').then(() => {
    allowed.add(currentId(), scope);
    draw();
  }),
  toField: () => composer.takeFocus(),
  recall: (handle) => api.recall(currentId(), handle),
  undo,
  goOn,
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
  look: state, toCall: (callId) => transcript.revealCall(callId), goOn: () => goOn().catch(tell),
  tryNow: () => tryNow().catch(tell), leave: () => composer.takeFocus(),
});
const allowed = new Allowed({ decide: (sessionId, id) => api.decide(sessionId, id, 'allow'), refused: tell });
const queue = new Queue({
  edit: (entry) => composer.edit({ ...entry, text: entryText(entry) }),
  remove: (id) => api.removeQueued(currentId(), id).catch(tell),
  goOn: () => goOn().catch(tell),
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
const list = new SessionList(sessions, () => draw());
const header = new Header({
  rename: async () => {
    const title = await askText({ title: 'Rename the session', label: 'Title', value: state().session?.title ?? '', action: 'Rename' });
    if (title) await rename(currentId(), title);
  },
  command: (name) => sendCommand({ name, rest: '' }, commandActions).catch(tell),
});
const models = new ModelMenu({
  current: () => {
    if (isFresh()) return { current: page.chosen?.shown ?? page.usual?.model ?? null, agent: page.chosen?.agent ?? null, note: 'It answers in the session that you begin.' };
    const { model, agent } = state().session ?? {};
    return { current: model?.model ?? null, agent: agent ?? null, note: 'The whole history stays. For a smaller window it may be compacted first.' };
  },
  choose: async (choice, shown) => {
    if (isFresh()) {
      page.chosen = { agent: choice.agent ?? page.chosen?.agent, model: choice.model, shown };
      whoChanged();
      draw();
      return {};
    }
    const answer = await switchModel(currentId(), choice);
    await page.open?.refreshSession();
    if (answer.when === 'next-step') toast({ title: 'The model changes at the next step', lines: ['What is being written now is finished first.'] });
    return answer;
  },
});
const opening = new Opening({
  pickModel: () => models.open(),
  transcript, composer, panel, banner, list, draw, drawNow,
  told: (events, now) => {
    news(events, now, newsActions);
    list.told(events);
  },
});

const commandActions = {
  currentId, go, openHelp, toast,
  openPanel: () => panel.open(),
  refreshList: () => list.refresh(),
  newestUndo: () => newestUndo(state()),
  undo, goOn,
  title: () => titleOf(state().session ?? {}),
  rename: (title) => rename(currentId(), title),
  model: (name) => {
    if (!currentId() && !isFresh()) throw new Error('No session is open.');
    return name ? models.choose({ model: name }, name) : models.open();
  },
};

const newsActions = {
  undo,
  undoOf: async (id) => {
    const { open } = page;
    await open.refreshEdits([]).catch(() => {});
    const edit = page.open === open ? state().edits.find((each) => each.id === id) : null;
    return edit ? undoOf(edit, state().edits) : null;
  },
  reveal: (id) => transcript.revealEdit(id),
  toast, closeToastAbout, announce,
};

/** What is refused is said in words that say what to do. */
async function undo(id) {
  try {
    await api.undo(currentId(), id);
  } catch (problem) {
    page.open?.refreshEdits([]).catch(() => {});
    throw problem.status === 409 ? new Error(refusedUndo(problem)) : problem;
  }
}

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
  queue.update(now.queue, isHeld(now));
  allowed.update(now);
  meter.update(now);
  panel.update(now);
  header.update(now, listed(), isFresh() ? page.chosen?.shown ?? page.usual?.model : null);
  status.draw();
  composer.update({ isBusy: Boolean(currentId()) && isBusy(now), canStop: isBusy(now), isHeld: isHeld(now) });
  if (composer.editing && !now.queue.some((entry) => entry.id === composer.editing)) composer.stopEditing(true);
}

/** Esc: closes what has the focus; else stops the agent; else closes what is open. */
function escape() {
  if (drawer.isOpen) drawer.toggle(false);
  else if (toastHasFocus()) closeToast();
  else if (panel.isOpen && panel.element.contains(document.activeElement)) panel.close();
  else if (isBusy(state())) stop();
  else if (!closeToast() && panel.isOpen) panel.close();
}

function begin() {
  setTheme(currentTheme());
  byId('settings-open').addEventListener('click', openSettings);
  byId('help-open').addEventListener('click', openHelp);
  byId('theme-toggle').addEventListener('click', () => {
    setTheme(otherTheme());
    announce(`Theme: ${currentTheme() === 'system' ? 'as the system has it' : currentTheme()}`);
  });
  document.querySelectorAll('[data-close]').forEach((each) => each.addEventListener('click', () => each.closest('dialog').close()));
  listenForKeys({
    escape, neighbour: (step) => list.neighbour(step), help: openHelp, settings: openSettings,
    panel: () => currentId() && panel.toggle(), fresh: () => go('#/'), field: () => composer.input.focus(),
    search: () => drawer.search(), review: () => status.review(),
  });
  list.watch();
  if (location.hash === '#opening-link-spent') {
    showLogin('This opening link was used before, or is older than ten minutes.');
    return;
  }
  list.refresh();
  opening.follow();
  showFolder();
}

begin();
