// A tool call: one line, and all of it on demand.
import { button, h, icon, setText, show } from '../dom.js';
import { argumentsOf, beside, change, outcome, resultText, subject } from '../text/calls.js';
import { exact, exactLines } from '../text/exact.js';
import { count, duration, lineCount, plural } from '../text/format.js';
import { approvalView } from './approval.js';
import { diffView } from './diff.js';
import { mediaList } from './media.js';

const SYMBOLS = {
  pending: 'clock', running: 'spinner', completed: 'check', error: 'cross', cancelled: 'stop', interrupted: 'alert',
};
const WORDS = {
  pending: 'waits', running: 'runs', completed: 'done', error: 'failed', cancelled: 'stopped', interrupted: 'interrupted',
};

/** Characters of an output that are shown before somebody asks for all. */
const SHOWN_CHARS = 6_000;

export class CallView {
  constructor(context) {
    this.context = context;
    this.call = null;
    this.isOpen = false;
    this.wasToggled = false;
    this.glyph = h('span.glyph');
    this.name = h('span.tool-name');
    this.subject = h('span.tool-subject.mono');
    this.outcome = h('span.tool-outcome');
    this.time = h('span.tool-time.numbers');
    this.line = h(
      'button.tool-line', { type: 'button', 'aria-expanded': 'false', onclick: () => this.toggle() },
      this.glyph, this.name, this.subject, this.outcome, this.time,
    );
    this.body = h('div.tool-body', { hidden: true });
    this.output = null;
    this.element = h('div.tool', {}, this.line, this.body);
  }

  update(call, isCleared) {
    if (call === this.call && isCleared === this.isCleared) return;
    const before = this.call;
    const hadFocus = this.body.querySelector('.approval')?.contains(document.activeElement);
    this.call = call;
    this.isCleared = isCleared;
    const { asks } = this;
    const look = asks ? 'asks' : call.status;
    this.element.dataset.status = look;
    if (this.look !== look) {
      this.look = look;
      show(this.glyph, icon(asks ? 'question' : SYMBOLS[call.status] ?? 'check', asks ? 'asks you' : WORDS[call.status]));
    }
    setText(this.name, exact(call.name));
    setText(this.subject, subject(call));
    this.subject.title = this.subject.textContent;
    this.tick(Date.now());
    if (!this.wasToggled) this.setOpen(asks || call.status === 'error' || (call.status === 'running' && call.output !== undefined));
    else if (asks) this.setOpen(true);
    if (this.isOpen) this.fillBody(before);
    this.sayOutcome();
    if (hadFocus && !asks) this.context.toField();
  }

  /** Whether it waits for a person. */
  get asks() {
    const { approval, result } = this.call;
    return Boolean(approval && !approval.decision && !result);
  }

  /** The focus goes to the answer of a question. */
  focusAnswer() {
    this.body.querySelector('.approval :is(.deny:not([hidden]) input, .choice:not([hidden]) button)')?.focus();
  }

  /** An error that is read below is not said twice. */
  sayOutcome() {
    const words = outcome(this.call);
    const brief = this.isOpen && this.call.status === 'error' && !words.startsWith('exit') ? 'failed' : words;
    setText(this.outcome, this.isCleared ? `${brief} · pruned` : brief);
  }

  /** The elapsed time of a call that runs. */
  tick(now) {
    const { startedAt, endedAt, status } = this.call;
    const end = status === 'running' ? now : endedAt;
    const lasted = startedAt && end ? end - startedAt : 0;
    setText(this.time, lasted >= 1_000 || (status === 'running' && startedAt) ? duration(Math.max(lasted, 0)) : '');
  }

  /** What waits for a person stays open: its line leads to the answer. */
  toggle() {
    if (this.asks) {
      this.focusAnswer();
      return;
    }
    this.wasToggled = true;
    this.setOpen(!this.isOpen);
    if (this.isOpen) this.fillBody(null);
    this.sayOutcome();
  }

  setOpen(isOpen) {
    if (this.isOpen === isOpen) return;
    this.isOpen = isOpen;
    this.body.hidden = !isOpen;
    this.line.setAttribute('aria-expanded', String(isOpen));
    if (!isOpen) {
      this.body.replaceChildren();
      this.output = null;
    }
  }

  fillBody(before) {
    const { call } = this;
    const grows = this.output && before && !call.result && before.approval === call.approval && before.output !== undefined;
    if (grows) {
      this.output.update(call.output ?? '');
      return;
    }
    if (this.body.childElementCount && before && before.result === call.result && before.approval === call.approval
      && call.output === undefined && before.status === call.status) return;
    this.output = null;
    show(this.body, this.sections());
  }

  sections() {
    const { call } = this;
    const { asks } = this;
    const changed = change(call);
    const args = argumentsOf(call);
    const told = asks || !call.result || Object.keys(args ?? {}).length > 1 || !args;
    return [
      asks && args?.description ? h('p.quiet', {}, exactLines(String(args.description)).join('\n')) : null,
      changed ? diffView(changed, { isAll: asks }) : null,
      asks && changed ? othersView(beside(call, args, changed)) : null,
      told && !changed ? argumentView(call, args) : null,
      asks ? approvalView(call, {
        decide: (decision, reason) => this.context.decide(call.approval.id, decision, reason),
        always: (scope) => this.context.always(call.approval.id, scope), leave: () => this.context.toField(),
      }) : null,
      this.outputSection(),
      mediaList(this.context.sessionId, (call.result?.content ?? []).filter((part) => part.blob)),
      this.restSection(),
      this.isCleared ? h('p.quiet', {}, 'The model no longer sees this output; it can look it up. Nothing was deleted.') : null,
    ];
  }

  outputSection() {
    const { call } = this;
    if (!call.result && call.output === undefined) return null;
    const text = call.result ? resultText(call) : call.output;
    const fails = call.status === 'error';
    this.output = new Output(text, { atEnd: fails || !call.result, isLive: !call.result, lost: call.outputLost });
    return this.output.element;
  }

  restSection() {
    const truncated = this.call.result?.truncated;
    if (!truncated) return null;
    const said = h('span.quiet', { role: 'status' });
    const more = button('Show all of it', { symbol: 'expand', onclick: async () => {
      more.disabled = true;
      said.textContent = 'Looking it up …';
      try {
        const { text } = await this.context.recall(`lh:${this.call.result.seq}`);
        this.output?.replace(text);
        rest.replaceChildren(h('span.quiet', {}, 'This is the whole output, as it was.'));
      } catch (problem) {
        more.disabled = false;
        said.textContent = problem.message;
      }
    } });
    const rest = h('p.rest', {}, h('span.quiet', {}, `${count(truncated.omittedChars)} characters were left out for the model and kept.`), more, said);
    return rest;
  }
}

function argumentView(call, args) {
  if (args && typeof args.command === 'string') {
    const rest = Object.entries(args).filter(([key]) => !['command', 'description'].includes(key));
    return [
      h('pre.command', { tabindex: '0', 'aria-label': 'Command' }, exactLines(args.command).join('\n')),
      othersView(Object.fromEntries(rest)),
    ];
  }
  const text = args ? JSON.stringify(args, null, 2) : call.argsText;
  return h('pre.arguments', { tabindex: '0', 'aria-label': 'Arguments' }, exactLines(text).join('\n'));
}

function othersView(args) {
  if (!Object.keys(args).length) return null;
  const text = exactLines(JSON.stringify(args, null, 2)).join('\n');
  return h('pre.arguments', { tabindex: '0', 'aria-label': 'Other arguments' }, text);
}

/** The output of a tool: the part that matters first, all of it on demand. */
class Output {
  constructor(text, { atEnd, isLive, lost }) {
    this.isLive = isLive;
    this.node = document.createTextNode('');
    this.pre = h('pre.output', { tabindex: '0', 'aria-label': 'Output' }, this.node);
    this.more = h('p.rest', { hidden: true });
    this.element = h('div', {}, lost ? h('p.quiet', {}, 'The beginning comes with the result.') : null, this.pre, this.more);
    const long = !isLive && text.length > SHOWN_CHARS;
    this.node.data = long ? (atEnd ? text.slice(-SHOWN_CHARS) : text.slice(0, SHOWN_CHARS)) : text;
    if (long) {
      this.more.hidden = false;
      this.more.append(button(`Show all ${plural(lineCount(text), 'line')}`, { symbol: 'expand', onclick: () => this.replace(text) }));
    }
    if (atEnd) requestAnimationFrame(() => { this.pre.scrollTop = this.pre.scrollHeight; });
  }

  update(text) {
    const isAtEnd = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 24;
    const known = this.node.data;
    if (text.startsWith(known)) this.node.appendData(text.slice(known.length));
    else this.node.data = text;
    if (isAtEnd) this.pre.scrollTop = this.pre.scrollHeight;
  }

  replace(text) {
    this.node.data = text;
    this.more.hidden = true;
    this.pre.classList.add('whole');
    this.pre.scrollTop = 0;
  }
}
