// What was compacted, pruned or brought back: one row each, that opens to what it stands for.
import { button, coded, h, icon, show } from '../dom.js';
import { cutsMessage, isExtract, leftOut, reasonOf, sizes, survivalLine, survivalRows, whyNot } from '../text/edits.js';
import { subject } from '../text/calls.js';
import { exact } from '../text/exact.js';
import { count, plural, tokens } from '../text/format.js';
import { answersOf } from '../state/answers.js';
import { MessageView } from './message.js';

/** Originals shown at a time. */
const ORIGINALS = 30;

/** Something that is asked for once, and says why it was refused. */
function act(label, symbol, said, work) {
  const it = button(label, { symbol, onclick: async (event) => {
    event.stopPropagation();
    it.disabled = true;
    said.textContent = '';
    try {
      await work();
    } catch (problem) {
      said.textContent = problem.message;
    }
    it.disabled = false;
  } });
  return it;
}

/** Undo, or in its place why there is none. */
function undoing(row, said, context) {
  const refused = whyNot(row.undo);
  if (!refused) return act('Undo', 'undo', said, () => context.undo(row.edit.id));
  const [short, long] = refused;
  return h('span.not-undone', { title: long }, short, h('span.unseen', {}, `. ${long}`));
}

/** Beside a refused undo, "recoverable" would read as a contradiction. */
function kept(row) {
  return row.undo === 'no-room' ? ' · can be looked up' : ' · all recoverable';
}

export class FoldView {
  constructor(row, context) {
    this.context = context;
    this.said = h('span.form-said', { role: 'alert' });
    this.words = h('span.fold-words');
    this.toggleButton = h('button.fold-line', { type: 'button', 'aria-expanded': 'false', onclick: () => this.toggle() });
    this.actions = h('span.fold-actions');
    this.body = h('div.fold-body', { hidden: true });
    const head = h('div.fold-head', {}, this.toggleButton, this.actions);
    this.element = h('section.row.fold', { 'aria-label': 'Compacted' }, h('div.wide', {}, head, this.said, this.body));
    this.update(row);
  }

  update(row) {
    this.row = row;
    const { edit, part, parts } = row;
    this.isWhole = part === parts;
    const words = this.isWhole
      ? [h('strong', {}, `compacted ${plural(this.number(), 'message')}`), ` · ${sizes(edit)}`, h('span.quiet', {}, `${isExtract(edit) ? ' · an extract, no model wrote it' : ''}${kept(row)}`)]
      : [h('strong', {}, plural(this.here(), 'message')), h('span.quiet', {}, ' · compacted with those below')];
    show(this.toggleButton, icon('fold'), h('span.fold-words', {}, words), icon('chevron'));
    show(
      this.actions,
      row.unfolded ? button('Fold away', { onclick: () => this.context.refold(edit.id) }) : null,
      this.isWhole ? undoing(row, this.said, this.context) : null,
    );
    if (!this.body.hidden) this.fill();
  }

  summaries() {
    return this.context.summaries(this.row.edit.id);
  }

  /** Messages that the edit left out, and those of them that stood here. */
  number() {
    const { edit } = this.row;
    return edit.originalMessages ? leftOut(edit, this.summaries().length || 1) : this.here();
  }

  here() {
    return this.row.messages.reduce((sum, message) => sum + 1 + message.calls.filter((call) => call.result).length, 0);
  }

  toggle(isOpen = this.body.hidden) {
    this.body.hidden = !isOpen;
    this.toggleButton.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) this.fill();
    else this.body.replaceChildren();
  }

  /** What stands for the original may have to be fetched first. */
  async needSummary() {
    if (this.summaries().length || this.hasAsked) return;
    this.hasAsked = true;
    await this.context.needSummary(this.row.edit);
    if (this.summaries().length && !this.body.hidden) this.fill();
  }

  fill() {
    const { edit, inner } = this.row;
    if (!this.isWhole) {
      show(this.body, this.originals());
      return;
    }
    this.needSummary();
    const reason = reasonOf(edit);
    const facts = [
      h('p', {}, h('strong', {}, 'Why. '), [reason && `${upper(reason)}. `, edit.why && `${upper(edit.why)}.`].filter(Boolean).join('')),
      edit.survival ? h('p', {}, h('strong', {}, 'What survives. '), survivalLine(edit.survival)) : null,
      survivalTable(edit.survival),
      inner.length ? h('p.quiet', {}, h('strong', {}, 'Inside it. '), inner.map((each) => `${each.id}: ${sizes(each)}`).join('; '), '. Undo this one first to undo those.') : null,
      numbered(edit),
    ];
    const summary = this.summaries().join('\n\n').trim() || 'These messages were left out without a summary, and can be looked up.';
    show(
      this.body,
      h('div.fold-facts', {}, facts),
      h(
        'div.sides', {},
        h('section.side', { 'aria-label': 'What the model sees', tabindex: '0' }, h('h3', {}, 'What the model sees'), h('div.summary', {}, summary)),
        h('section.side', { 'aria-label': 'The original', tabindex: '0' }, h('h3', {}, 'The original'), this.originals()),
      ),
    );
  }

  originals() {
    const messages = answersOf(this.row.messages);
    const list = h('div.originals');
    if (this.row.unfolded) return h('p.quiet', {}, 'It stands above, where it was.');
    const earlier = button('Earlier ones', { symbol: 'expand', onclick: () => this.context.loadOlder() });
    if (this.row.isCut) list.append(earlier);
    let shown = 0;
    const more = button('Show more', { symbol: 'expand', onclick: () => add() });
    const add = () => {
      const next = messages.slice(shown, shown + ORIGINALS);
      let speaker = messages[shown - 1]?.message.kind;
      for (const answer of next) {
        const { id, kind } = answer.message;
        const row = { key: id, ...answer, cleared: '', speaks: kind !== speaker };
        speaker = kind;
        list.append(new MessageView(row, this.context).element);
      }
      shown += next.length;
      more.remove();
      if (shown < messages.length) {
        more.lastChild.textContent = `Show ${plural(Math.min(ORIGINALS, messages.length - shown), 'more message')} of ${count(messages.length - shown)}`;
        list.append(more);
      }
    };
    add();
    return list;
  }
}

/** What the log and error messages call it. */
function numbered({ id, strategy }) {
  return h('p.quiet', {}, 'Edit ', h('code', {}, id), strategy ? ` · ${strategy}` : null);
}

function survivalTable(survival) {
  const rows = survivalRows(survival);
  if (!rows.length) return null;
  const head = h('tr', {}, ['Facts', 'In the window', 'Can be looked up', 'Lost'].map((word) => h('th', { scope: 'col' }, word)));
  const body = rows.map((row) => h('tr', {}, h('th', { scope: 'row' }, row.name), [row.verbatim, row.recoverable, row.lost].map((number) => h('td', {}, count(number)))));
  return h('table.survival', {}, h('thead', {}, head), h('tbody', {}, body));
}

function upper(text) {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, '');
}

export class PruneView {
  constructor(row, context) {
    this.context = context;
    this.element = h('section.row.fold.prune', { 'aria-label': 'Pruned' });
    this.update(row);
  }

  update(row) {
    const { edit } = row;
    const said = h('span.form-said', { role: 'alert' });
    const number = edit.prunedCount ?? edit.handles?.length ?? 0;
    const calls = this.context.callsAt((edit.handles ?? []).map((handle) => Number(handle.match(/\d+/)?.[0])));
    const list = h('ul.pruned', { hidden: true }, calls.map(({ call, messageId }) => h(
      'li', {},
      h('button.link', { type: 'button', onclick: () => this.context.reveal(messageId) }, h('span.tool-name', {}, exact(call.name)), ' ', h('span.mono', {}, subject(call))),
    )), h('li', {}, numbered(edit)));
    const line = h(
      'button.fold-line', { type: 'button', 'aria-expanded': 'false', onclick: () => {
        list.hidden = !list.hidden;
        line.setAttribute('aria-expanded', String(!list.hidden));
      } },
      icon('broom'),
      h('span.fold-words', {}, h('strong', {}, cutsMessage(edit) ? 'a message that does not fit is shown by its beginning and its end' : `pruned ${plural(number, 'old tool result')}`), ` · ${tokens(edit.originalTokens)} → ${tokens(edit.compressedTokens)} tokens`, h('span.quiet', {}, kept(row))),
      icon('chevron'),
    );
    show(this.element, h('div.wide', {}, h('div.fold-head', {}, line, h('span.fold-actions', {}, undoing(row, said, this.context))), said, list));
  }
}

export class RestoredView {
  constructor(row, context) {
    this.context = context;
    this.element = h('section.row.fold.restored', { 'aria-label': 'Undone' });
    this.update(row);
  }

  update(row) {
    const { edit } = row;
    const said = h('span.form-said', { role: 'alert' });
    const what = edit.kind === 'prune' ? 'The pruned tool results are back' : 'The original messages are back in the window';
    const release = edit.released ? null : act('Allow compacting again', null, said, () => this.context.release(edit.id));
    if (release) release.title = 'What you brought back is left alone by automatic compaction until you allow it.';
    show(this.element, h('div.wide', {}, h('div.fold-head', {}, h('span.fold-line', {}, icon('undo'), h('span.fold-words', {}, h('strong', {}, 'undone'), ` · ${what}`)), h('span.fold-actions', {}, release)), said));
  }
}

export class NoticeView {
  constructor(row, context) {
    this.context = context;
    this.element = h('div.row.notice');
    this.update(row);
  }

  update({ notice, goOn, settled }) {
    const { tone, text, detail, help, code } = notice;
    const said = h('span.form-said', { role: 'alert' });
    this.element.dataset.tone = settled ? 'quiet' : tone;
    if (settled) {
      show(this.element, this.settled(notice, settled));
      return;
    }
    show(this.element, h(
      'div.wide', {}, tone === 'quiet' ? null : icon('alert'), h('span', { title: code ? `Code: ${code}` : null }, text),
      detail || help ? h('span.notice-detail', {}, detail ? [coded(detail), help ? h('br') : null] : null, help) : null,
      goOn ? h('span.notice-actions', {}, act(goOn, 'again', said, () => this.context.goOn()), h('span.quiet', {}, 'or /retry')) : null, said,
    ));
  }

  /** A failure that is not the end of it is one quiet line. */
  settled({ text, detail, code }, since) {
    return h('details.wide.settled', {}, h('summary', {}, since === 'answered' ? 'An attempt failed here; the agent has answered since' : 'An attempt failed here; so did a later one'), h('p', { title: code ? `Code: ${code}` : null }, text), detail ? h('p', {}, coded(detail)) : null);
  }
}
