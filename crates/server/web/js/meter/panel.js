// The panel behind the meter: what fills the window, how sure that is, and how it came about.
import { byId, h, show } from '../dom.js';
import { count, percent, tokens } from '../text/format.js';
import { reasonOf, sizes } from '../text/edits.js';
import { chart } from './chart.js';
import { activeSummaries } from './meter.js';
import { segmentsOf, spokenOf, tableOf } from './segments.js';

export class Panel {
  constructor({ onOpen, onReveal }) {
    Object.assign(this, { onOpen, onReveal });
    this.element = byId('panel');
    this.body = byId('panel-body');
    byId('panel-close').addEventListener('click', () => this.close());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }

  open() {
    this.opener = document.activeElement;
    this.element.hidden = false;
    document.body.classList.add('panel-open');
    this.onOpen();
    this.shown = null;
    byId('panel-close').focus();
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    document.body.classList.remove('panel-open');
    (this.opener?.isConnected ? this.opener : byId('meter')).focus();
  }

  update(state) {
    if (!this.isOpen) return;
    const inputs = [state.report, state.steps, state.edits, state.estimates, state.summaries];
    if (this.shown?.every((input, at) => input === inputs[at])) return;
    this.shown = inputs;
    const open = new Set([...this.body.querySelectorAll('details[open]')].map((each) => each.dataset.row));
    const top = this.body.scrollTop;
    show(this.body, this.sections(state));
    this.body.querySelectorAll('details').forEach((each) => { each.open = open.has(each.dataset.row); });
    this.body.scrollTop = top;
  }

  sections(state) {
    const { report, steps, edits, estimates } = state;
    if (!report) return [h('p.quiet', {}, 'The meter is read …')];
    return [
      h('p.panel-lead', {}, spokenOf(state.usage ?? report, report)),
      legend(segmentsOf(report, activeSummaries(edits, state.summaries))),
      h('h3', {}, 'Context per step'),
      chart(steps, edits, report.window),
      h('h3', {}, 'What fills it'),
      h('div.report', {}, tableOf(report).map(row)),
      h('h3', {}, 'Last estimates against actuals'),
      estimateTable(estimates),
      edits.length ? h('h3', {}, 'Compactions and prunes') : null,
      edits.length ? this.editList(edits) : null,
    ];
  }

  editList(edits) {
    return h('ul.edits', {}, edits.toReversed().slice(0, 30).map((edit) => h(
      'li', {},
      h('button.link', { type: 'button', onclick: () => this.onReveal(edit.id) }, `${edit.kind === 'prune' ? 'Cleared' : 'Compacted'} · ${sizes(edit)}`),
      h('span.quiet', {}, [edit.active ? null : 'undone', reasonOf(edit)].filter(Boolean).map((word) => ` · ${word}`).join('')),
    )));
  }
}

function row({ label, tokens: size, number, note, mark, indent, strong, says }) {
  const value = size === undefined ? count(number) : count(size);
  return h(
    `details.report-row${indent ? '.indent' : ''}${strong ? '.strong' : ''}`, { 'data-row': label },
    h('summary', {}, h('span.report-label', {}, label), h('span.report-mark', {}, [mark, note].filter(Boolean).join(' · ')), h('span.report-value.numbers', {}, mark === 'estimated' ? `~${value}` : value)),
    h('p', {}, says),
  );
}

function legend(segments) {
  return h('ul.legend.wide-legend', {}, segments.map((segment) => h(
    'li', {}, h(`span.swatch.part.${segment.key}${segment.estimated ? '.estimated' : ''}`, { 'aria-hidden': 'true' }),
    `${segment.label} `, h('span.numbers', {}, `${segment.estimated ? '~' : ''}${tokens(segment.tokens)}`),
  )));
}

function estimateTable(estimates) {
  if (!estimates.length) return h('p.quiet', {}, 'After each call the estimate is compared with what the model reports. None was made yet.');
  const head = h('tr', {}, ['Estimated', 'Reported', 'Error'].map((word) => h('th', { scope: 'col' }, word)));
  const line = ({ estimated, actual, errorPercent }) => h('tr', {}, h('td', {}, count(estimated)), h('td', {}, count(actual)), h('td', {}, `${errorPercent > 0 ? '+' : errorPercent < 0 ? '−' : ''}${percent(Math.abs(errorPercent))} %`));
  return h('table.estimates.numbers', {}, h('thead', {}, head), h('tbody', {}, estimates.slice(-8).reverse().map(line)));
}
