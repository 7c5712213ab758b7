// A change of a file as lines, signed as well as coloured.
import { h } from '../dom.js';
import { hunks, tally } from '../text/diff.js';
import { exact, exactChange } from '../text/exact.js';
import { plural } from '../text/format.js';

const SIGNS = { same: ' ', added: '+', removed: '−' };
const WORDS = { added: 'added', removed: 'removed' };
const LINES = 400;

/** `isAll`: every line is shown, however many there are: a person is asked to allow them. */
export function diffView({ path, lines, isWhole, everywhere }, { isAll = false } = {}) {
  const { added, removed } = tally(lines);
  const size = isWhole ? `new content · ${plural(added, 'line')}` : `+${added} −${removed}`;
  const head = h('div.diff-head', {}, h('span.mono', {}, exact(path)), h('span.quiet', {}, everywhere ? `${size} · everywhere` : size));
  const all = exactLinesOf(isWhole || isAll ? lines : hunks(lines));
  const shown = isAll ? all : all.slice(0, LINES);
  const rest = all.length - shown.length;
  return h(
    'figure.diff', { 'aria-label': `Change of ${exact(path)}` },
    head,
    h('div.diff-lines', { tabindex: '0', role: 'group', 'aria-label': 'Changed lines' }, shown.map(line)),
    rest > 0 ? h('div.quiet', {}, `${plural(rest, 'more line')}: see the arguments.`) : null,
  );
}

/** Lines of a change as a person has to see them; gaps between them stay. */
function exactLinesOf(lines) {
  const gaps = lines.filter(({ kind }) => kind === 'gap');
  const named = lines.map((each) => (each.kind === 'gap' ? { kind: 'gap', text: 'gap' } : each));
  return exactChange(named).map((each) => (each.kind === 'gap' ? gaps.shift() : each));
}

function line({ kind, text, count }) {
  if (kind === 'gap') return h('div.line.gap', {}, `⋯ ${plural(count, 'line')} unchanged`);
  const word = WORDS[kind] ? h('span.unseen', {}, WORDS[kind]) : null;
  return h(`div.line.${kind}`, {}, h('span.sign', { 'aria-hidden': 'true' }, SIGNS[kind]), word, h('span', {}, text || ' '));
}
