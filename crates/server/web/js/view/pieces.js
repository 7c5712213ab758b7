// What came before the end of an answer whose connection broke: the beginning that it goes on with, in full, and lost
// attempts, folded.
import { h, icon, show } from '../dom.js';
import { attemptOf, breakOf } from '../text/failures.js';
import { isLost } from '../state/answers.js';
import { Prose } from './prose.js';
import { Reasoning } from './reasoning.js';

export class Pieces {
  constructor() {
    this.shown = [];
    this.element = h('div.pieces', { hidden: true });
  }

  update(messages) {
    if (messages.length === this.shown.length && messages.every((message, at) => message === this.shown[at])) return;
    this.shown = messages;
    this.element.hidden = messages.length === 0;
    show(this.element, messages.flatMap((message, at) => this.parts(message, messages.slice(at + 1))));
  }

  parts(message, later) {
    if (isLost(message)) return [attempt(message)];
    // A note stands in the mark of the beginning before it.
    if (message.kind !== 'model') return [];
    const reasoning = new Reasoning();
    reasoning.update(message, false);
    const prose = new Prose();
    prose.update(message.text, false);
    const end = later.findIndex((each) => each.kind !== 'note');
    return [reasoning.element, prose.element, mark(message, end < 0 ? later : later.slice(0, end))];
  }
}

/** The quiet mark where the connection broke, with what the model was told then. */
function mark(message, notes) {
  const words = breakOf(message);
  if (!notes.length) return h('p.cut', {}, icon('again'), words);
  return h('details.reasoning.break', {}, h('summary', {}, words), notes.map((note) => h('div.reasoning-text', {}, note.text)));
}

function attempt(message) {
  const { text, reasoning, calls, error } = message;
  const names = calls.map((call) => call.name).join(', ');
  return h(
    'details.reasoning.attempt', {},
    h('summary', {}, attemptOf(message)),
    [reasoning, text, names && `Tools that never ran: ${names}`, error?.message].filter(Boolean).map((each) => h('div.reasoning-text', {}, each)),
  );
}
