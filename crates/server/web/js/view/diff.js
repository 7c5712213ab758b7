// A change of a file as lines, signed as well as coloured.
import { h } from '../dom.js';
import { hunks, tally } from '../text/diff.js';
import { plural } from '../text/format.js';

const SIGNS = { same: ' ', added: '+', removed: '−' };
const WORDS = { added: 'added', removed: 'removed' };
const LINES = 400;

export function diffView({ path, lines, isWhole, everywhere }) {
  const { added, removed } = tally(lines);
  const size = isWhole ? `new content · ${plural(added, 'line')}` : `+${added} −${removed}`;
  const head = h('div.diff-head', {}, h('span.mono', {}, path), h('span.quiet', {}, everywhere ? `${size} · everywhere` : size));
  const shown = (isWhole ? lines : hunks(lines)).slice(0, LINES);
  const rest = (isWhole ? lines.length : hunks(lines).length) - shown.length;
  return h(
    'figure.diff', { 'aria-label': `Change of ${path}` },
    head,
    h('div.diff-lines', { tabindex: '0', role: 'group', 'aria-label': 'Changed lines' }, shown.map(line)),
    rest > 0 ? h('div.quiet', {}, `${plural(rest, 'more line')}: see the arguments.`) : null,
  );
}

function line({ kind, text, count }) {
  if (kind === 'gap') return h('div.line.gap', {}, `⋯ ${plural(count, 'line')} unchanged`);
  const word = WORDS[kind] ? h('span.unseen', {}, WORDS[kind]) : null;
  return h(`div.line.${kind}`, {}, h('span.sign', { 'aria-hidden': 'true' }, SIGNS[kind]), word, h('span', {}, text || ' '));
}
