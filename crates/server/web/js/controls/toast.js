// What happened out of sight: at most one at a time, never over the input.
import { button, byId, h, icon, show } from '../dom.js';

const STAYS_MS = 14_000;

let timer = null;

/** What the shown toast is about, for example the name of an edit. */
let about = null;

/**
 * `actions` are `{label, symbol?, run}`; one that answers a promise may fail, which is said in its place. `subject` names
 * what the toast is about, for `closeToastAbout`.
 */
export function toast({ title, lines = [], actions = [], tone = 'quiet', subject = null }) {
  const place = byId('toast');
  const said = h('p.form-said', { role: 'alert' });
  const buttons = actions.map(({ label, symbol, run }) => button(label, { symbol, onclick: async (event) => {
    event.currentTarget.disabled = true;
    try {
      await run();
      closeToast();
    } catch (problem) {
      said.textContent = problem.message;
    }
  } }));
  show(
    place,
    h('div.toast-head', {}, icon(tone === 'failure' ? 'alert' : 'fold'), h('strong', {}, title), button('Close', { symbol: 'close', onlyIcon: true, onclick: closeToast })),
    lines.filter(Boolean).map((line) => h('p', {}, line)),
    said,
    buttons.length ? h('div.toast-actions', {}, buttons) : null,
  );
  place.dataset.tone = tone;
  about = subject;
  place.hidden = false;
  makeRoom(place);
  stay(place);
}

/** The space around a toast, in pixels. */
const GAP_PX = 24;

/**
 * Moves a short conversation below the toast, which would cover the buttons of its rows. A conversation that fills the
 * page stays in its place: its new rows are at the bottom.
 */
function makeRoom(place) {
  const scroller = byId('scroller');
  scroller.style.removeProperty('padding-top');
  const height = place.offsetHeight + GAP_PX;
  const end = scroller.lastElementChild?.getBoundingClientRect().bottom ?? 0;
  const isShort = scroller.scrollHeight <= scroller.clientHeight && end + height <= scroller.getBoundingClientRect().bottom;
  if (isShort) scroller.style.setProperty('padding-top', `${height}px`);
}

function stay(place) {
  clearTimeout(timer);
  const leave = () => {
    if (place.matches(':hover, :focus-within')) timer = setTimeout(leave, 2_000);
    else closeToast();
  };
  timer = setTimeout(leave, STAYS_MS);
}

export function toastHasFocus() {
  return byId('toast').matches(':focus-within');
}

/** Closes the toast about something that is over, so that it claims nothing that is no longer so. */
export function closeToastAbout(subject) {
  if (subject !== null && about === subject) closeToast();
}

export function closeToast() {
  clearTimeout(timer);
  const place = byId('toast');
  if (place.hidden) return false;
  place.hidden = true;
  byId('scroller').style.removeProperty('padding-top');
  place.replaceChildren();
  about = null;
  return true;
}
