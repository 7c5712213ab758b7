// A message: who speaks, what was thought, said and shown, and the tools it called.
import { button, h, icon, setText, show } from '../dom.js';
import { withTrail } from '../state/answers.js';
import { cutOf } from '../text/failures.js';
import { plural } from '../text/format.js';
import { CallView } from './call.js';
import { mediaList } from './media.js';
import { Pieces } from './pieces.js';
import { Prose } from './prose.js';
import { Reasoning } from './reasoning.js';

const SPEAKERS = { typed: 'you', model: 'agent', note: 'note' };
const TYPED_CHARS = 4_000;

export class MessageView {
  constructor(row, context) {
    this.context = context;
    this.calls = new Map();
    this.speaker = h('div.speaker');
    this.pieces = new Pieces();
    this.reasoning = new Reasoning();
    this.prose = row.message.kind === 'model' ? new Prose() : new Typed();
    this.media = h('div');
    this.tools = h('div.tools', { hidden: true });
    this.cut = h('p.cut', { hidden: true });
    this.content = h('div.content', {}, this.pieces.element, this.reasoning.element, this.prose.element, this.media, this.tools, this.cut);
    this.element = h('article.row.message', {}, this.speaker, this.content);
    this.update(row);
  }

  update(row) {
    const { live, speaks, cleared, settled } = row;
    const message = withTrail(row.message, row.trail);
    this.element.dataset.kind = message.kind;
    this.element.classList.toggle('speaks', Boolean(speaks));
    this.element.setAttribute('aria-label', SPEAKERS[message.kind]);
    setText(this.speaker, speaks ? SPEAKERS[message.kind] : '');
    this.pieces.update(row.before ?? []);
    this.reasoning.update(message, live);
    this.prose.update(message.text, Boolean(live) && (message.text !== '' || message.reasoning === ''));
    if (this.shownMedia !== message.media) {
      this.shownMedia = message.media;
      show(this.media, mediaList(this.context.sessionId, message.media));
    }
    this.updateCalls(message.calls, cleared);
    this.updateCut(message, Boolean(settled));
  }

  /** Amber only while nothing came after it. */
  updateCut(message, isSettled) {
    const words = cutOf(message);
    const how = isSettled ? 'settled' : message.interrupted ?? '';
    if (this.cut.dataset.how === how && this.cutWords === words) return;
    this.cut.dataset.how = how;
    this.cutWords = words;
    this.cut.hidden = !words;
    show(this.cut, words ? [icon(message.interrupted === 'lost' ? 'alert' : 'stop'), words] : []);
  }

  updateCalls(calls, cleared) {
    this.tools.hidden = calls.length === 0;
    if (!calls.length) return;
    const gone = new Set(cleared ? cleared.split(' ') : []);
    this.tools.classList.toggle('several', calls.length > 1);
    if (calls.length > 1) {
      this.tools.setAttribute('role', 'group');
      this.tools.setAttribute('aria-label', plural(calls.length, 'tool call'));
    }
    for (const call of calls) {
      let view = this.calls.get(call.callId);
      if (!view) {
        view = new CallView(this.context);
        this.calls.set(call.callId, view);
        this.tools.append(view.element);
      }
      view.update(call, gone.has(call.callId));
    }
  }

  /** Opens the call whose result stands at a position. */
  openCallAt(seq) {
    for (const view of this.calls.values()) if (view.call.result?.seq === seq && !view.isOpen) view.toggle();
  }

  /** The focus goes to the answer of a question. */
  focusAnswer(callId) {
    this.calls.get(callId)?.focusAnswer();
  }

  tick(now) {
    for (const view of this.calls.values()) if (view.call.status === 'running') view.tick(now);
  }
}

/** What a person wrote, letter for letter. */
class Typed {
  constructor() {
    this.element = h('div.typed');
  }

  update(text) {
    if (text === this.text) return;
    this.text = text;
    if (text.length <= TYPED_CHARS) {
      this.element.textContent = text;
      return;
    }
    const more = button(`Show all ${plural(text.length, 'character')}`, { symbol: 'expand', onclick: () => { this.element.textContent = text; } });
    show(this.element, `${text.slice(0, TYPED_CHARS)}…`, h('p.rest', {}, more));
  }
}
