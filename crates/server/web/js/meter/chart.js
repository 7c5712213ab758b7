// Context per step as SVG: what came from the cache, what was read anew, what was written; compactions as marks.
import { h, s } from '../dom.js';
import { count, tokens } from '../text/format.js';
import { columnsOf, marksOf, niceTop } from './columns.js';

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [400, 150, 40, 10, 18];

/** @param {{window: number, trigger?: number}} limits in tokens */
export function chart(steps, edits, { window, trigger }) {
  const figure = h('figure.chart');
  if (!steps.length) {
    figure.append(h('p.quiet', {}, 'No step of this session has been reported yet.'));
    return figure;
  }
  const columns = columnsOf(steps, Math.floor((WIDTH - LEFT) / 4));
  const highest = Math.max(...columns.map((column) => column.input + column.output));
  // Where it is compacted is shown once the steps come near it.
  const nearTrigger = trigger && trigger <= highest * 2 ? trigger : 0;
  const top = niceTop(Math.max(highest, nearTrigger));
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const width = (WIDTH - LEFT) / columns.length;
  const wide = Math.min(width - (width > 5 ? 1 : width > 2.5 ? 0.5 : 0), 16);
  const bar = (column, at, kind, from, to) => (to > from ? s('rect', {
    class: `bar ${kind}`, x: (LEFT + (at + 0.5) * width - wide / 2).toFixed(2), width: wide.toFixed(2), y: y(to).toFixed(2), height: (y(from) - y(to)).toFixed(2),
  }) : null);
  const bars = columns.map((column, at) => s(
    'g', {}, s('title', {}, describe(column)),
    bar(column, at, 'cached', 0, column.cached),
    bar(column, at, 'fresh', column.cached, column.input),
    bar(column, at, 'written', column.input, column.input + column.output),
  ));
  const lines = [0, top / 2, top].map((value) => s(
    'g', { class: 'axis' },
    s('line', { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }),
    s('text', { x: LEFT - 6, y: y(value) + 3.5, 'text-anchor': 'end' }, tokens(value)),
  ));
  const across = (kind, value, label) => s('g', { class: `limit ${kind}` }, s('title', {}, label), s('line', { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }));
  const limits = [
    nearTrigger ? across('at-trigger', trigger, `Compacts at ${tokens(trigger)}`) : null,
    window && window <= top ? across('at-window', window, `The window ends at ${tokens(window)}`) : null,
  ];
  const marks = marksOf(edits, columns).map(({ at, edit }) => {
    const x = Math.min(LEFT + at * width, WIDTH - 2);
    return s(
      'g', { class: 'mark' }, s('title', {}, `${edit.kind === 'prune' ? 'Pruned' : 'Compacted'}: ${tokens(edit.originalTokens)} → ${tokens(edit.compressedTokens)}`),
      s('line', { x1: x, x2: x, y1: TOP - 2, y2: HEIGHT - BOTTOM }), s('path', { d: `M${x - 4} ${TOP - 6}h8l-4 6z` }),
    );
  });
  const last = columns.at(-1);
  const foot = s('g', { class: 'axis' }, s('text', { x: LEFT, y: HEIGHT - 5 }, `step ${count(columns[0].first)}`), s('text', { x: WIDTH, y: HEIGHT - 5, 'text-anchor': 'end' }, `step ${count(last.last)}`));
  const says = `Context per step. The newest of ${count(last.last)} steps read ${tokens(last.input)} tokens, ${tokens(last.cached)} of them from the cache, and wrote ${tokens(last.output)}. ${count(edits.length)} compactions and prunes.`;
  figure.append(s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': says }, lines, bars, limits, marks, foot), legend(nearTrigger > 0, window <= top));
  return figure;
}

function describe({ first, last, input, cached, output }) {
  const which = first === last ? `Step ${first}` : `Steps ${first} to ${last}, the largest`;
  return `${which}: ${count(input)} read, ${count(cached)} of them cached; ${count(output)} written`;
}

function legend(hasTrigger, hasWindow) {
  const item = (kind, label) => h('li', {}, h(`span.swatch.${kind}`, { 'aria-hidden': 'true' }), label);
  return h('ul.legend', {}, item('cached', 'read from the cache'), item('fresh', 'read anew'), item('written', 'written'), item('mark', 'compacted or pruned'), hasTrigger ? item('rule', 'compacts here') : null, hasWindow ? item('rule.end', 'end of the window') : null);
}
