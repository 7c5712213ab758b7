// The panel behind the meter: what fills the window, how sure that is, and how it came about.
import { byId, h, setText, show } from '../dom.js';
import { count, percent, tokens } from '../text/format.js';
import { reasonOf, sizes } from '../text/edits.js';
import { chart } from './chart.js';
import { activeSummaries } from './meter.js';
import { isAssumed, segmentsOf, spokenOf, tableOf } from './segments.js';
import { movedLine, restsOn } from './trigger.js';

export class Panel {
  constructor({ onOpen, onReveal }) {
    Object.assign(this, { onOpen, onReveal });
    this.element = byId('panel');
    this.body = byId('panel-body');
    byId('panel-close').addEventListener('click', () => this.close());
    this.build();
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
    byId('meter').setAttribute('aria-expanded', 'true');
    this.onOpen();
    this.shown = null;
    byId('panel-close').focus();
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    document.body.classList.remove('panel-open');
    byId('meter').setAttribute('aria-expanded', 'false');
    (this.opener?.isConnected ? this.opener : byId('meter')).focus();
  }

  /** What is there is changed in place: a hand may be on it. */
  update(state) {
    if (!this.isOpen) return;
    const { report, usage, moved, steps, edits, estimates, summaries } = state;
    const inputs = [report, usage, moved, steps, edits, estimates, summaries];
    if (this.shown?.every((input, at) => input === inputs[at])) return;
    this.shown = inputs;
    if (!report) {
      setText(this.lead, 'Reading the meter …');
      this.rest.hidden = true;
      this.assumed.hidden = true;
      return;
    }
    this.rest.hidden = false;
    setText(this.lead, spokenOf(usage ?? report, report));
    setText(this.trigger, [restsOn(report), movedLine(moved)].filter(Boolean).join(' '));
    this.assumed.hidden = !isAssumed(report);
    setText(this.assumed, `The window of ${tokens(report.window)} is assumed: nobody states it for this model. Declare it with model.context_window in longhaul.yml, or it is corrected once the model refuses a request.`);
    show(this.legend, legend(segmentsOf(report, activeSummaries(edits, summaries))));
    show(this.chart, chart(steps, edits, { window: report.window, trigger: report.thresholds[0]?.tokens }));
    this.table.update(tableOf(report));
    show(this.estimates, estimateTable(estimates));
    show(this.edits, edits.length ? [h('h3', {}, 'Compactions and prunes'), this.editList(edits)] : []);
  }

  build() {
    this.lead = h('p.panel-lead');
    this.trigger = h('p.panel-trigger.quiet');
    this.assumed = h('p.panel-assumed', { hidden: true });
    [this.legend, this.chart, this.estimates, this.edits] = Array.from({ length: 4 }, () => h('div'));
    this.table = new Table();
    this.rest = h(
      'div', {}, this.trigger, this.legend, h('h3', {}, 'Context per step'), this.chart, h('h3', {}, 'What fills it'), this.table.element,
      h('h3', {}, 'Last estimates against actuals'), this.estimates, this.edits,
    );
    show(this.body, this.lead, this.assumed, this.rest);
  }

  editList(edits) {
    return h('ul.edits', {}, edits.toReversed().slice(0, 30).map((edit) => h(
      'li', {},
      h('button.link', { type: 'button', onclick: () => this.onReveal(edit.id) }, `${edit.kind === 'prune' ? 'Pruned' : 'Compacted'} · ${sizes(edit)}`),
      h('span.quiet', {}, [edit.active ? null : 'undone', reasonOf(edit)].filter(Boolean).map((word) => ` · ${word}`).join('')),
    )));
  }
}

/** The rows of the report, each of which opens to what it means. */
class Table {
  constructor() {
    this.element = h('div.report');
    this.rows = new Map();
  }

  update(rows) {
    const labels = new Set(rows.map((row) => row.label));
    for (const [label, { element }] of this.rows) {
      if (labels.has(label)) continue;
      element.remove();
      this.rows.delete(label);
    }
    rows.forEach((row, at) => {
      const known = this.rows.get(row.label) ?? this.make(row);
      if (this.element.children[at] !== known.element) this.element.insertBefore(known.element, this.element.children[at] ?? null);
      const value = count(row.tokens ?? row.number);
      setText(known.value, row.mark === 'estimated' && value !== '0' ? `~${value}` : value);
      setText(known.mark, [row.mark, row.note].filter(Boolean).join(' · '));
      setText(known.says, row.says);
    });
  }

  make({ label, indent, strong }) {
    const row = { value: h('span.report-value.numbers'), mark: h('span.report-mark'), says: h('p') };
    row.element = h(
      `details.report-row${indent ? '.indent' : ''}${strong ? '.strong' : ''}`, { 'data-row': label },
      h('summary', {}, h('span.report-label', {}, label), row.mark, row.value), row.says,
    );
    this.rows.set(label, row);
    return row;
  }
}

function legend(segments) {
  return h('ul.legend.wide-legend', {}, segments.map((segment) => h(
    'li', {}, h(`span.swatch.part.m-${segment.key}${segment.estimated ? '.estimated' : ''}`, { 'aria-hidden': 'true' }),
    `${segment.label} `, h('span.numbers', {}, `${segment.estimated ? '~' : ''}${tokens(segment.tokens)}`),
  )));
}

function estimateTable(estimates) {
  if (!estimates.length) return h('p.quiet', {}, 'After each call the estimate is compared with what the model reports. None was made yet.');
  const head = h('tr', {}, ['Estimated', 'Reported', 'Error'].map((word) => h('th', { scope: 'col' }, word)));
  const line = ({ estimated, actual, errorPercent }) => h('tr', {}, h('td', {}, count(estimated)), h('td', {}, count(actual)), h('td', {}, `${errorPercent > 0 ? '+' : errorPercent < 0 ? '−' : ''}${percent(Math.abs(errorPercent))} %`));
  return h('table.estimates.numbers', {}, h('thead', {}, head), h('tbody', {}, estimates.slice(-8).reverse().map(line)));
}
