// Text in which nothing hides, for what a person is asked to allow. Pure.
// `docs/visible-text.json` describes the rules. The terminal has the same ones (`crates/cli/src/term/exact.rs`), and the
// tests of both are held against that file.

/** Columns that a tab takes. */
const TAB_COLUMNS = 4;

/** The longest indentation that is shown as blanks, in columns. */
const MAX_LEADING_COLUMNS = 40;

/** The longest run of blanks between two words that is shown as blanks, in columns. */
const MAX_INNER_COLUMNS = 8;

/** Blank lines in a row that are shown as such. */
const MAX_BLANK_LINES = 2;

/**
 * Characters that a reader does not see, or that change how others are shown: controls, marks of direction, blanks of other
 * widths, joiners, tags, marks that are drawn over a letter, private use. A line break is none of them.
 */
const ESCAPED = new RegExp(`[${[
  '\\u{0}-\\u{9}', '\\u{b}-\\u{1f}', '\\u{7f}-\\u{a0}', '\\u{ad}', '\\u{300}-\\u{36f}', '\\u{483}-\\u{489}', '\\u{61c}',
  '\\u{115f}-\\u{1160}', '\\u{1680}', '\\u{17b4}-\\u{17b5}', '\\u{180b}-\\u{180f}', '\\u{1ab0}-\\u{1aff}',
  '\\u{1dc0}-\\u{1dff}', '\\u{2000}-\\u{200f}', '\\u{2028}-\\u{202f}', '\\u{205f}-\\u{206f}', '\\u{20d0}-\\u{20ff}',
  '\\u{2800}', '\\u{3000}', '\\u{3164}', '\\u{d800}-\\u{f8ff}', '\\u{fdd0}-\\u{fdef}', '\\u{fe00}-\\u{fe0f}',
  '\\u{fe20}-\\u{fe2f}', '\\u{feff}', '\\u{ffa0}', '\\u{fff0}-\\u{fffc}', '\\u{fffe}-\\u{ffff}', '\\u{1bca0}-\\u{1bca3}',
  '\\u{1d159}', '\\u{1d173}-\\u{1d17a}', '\\u{1fffe}-\\u{1ffff}', '\\u{2fffe}-\\u{2ffff}', '\\u{3fffe}-\\u{3ffff}',
  '\\u{4fffe}-\\u{4ffff}', '\\u{5fffe}-\\u{5ffff}', '\\u{6fffe}-\\u{6ffff}', '\\u{7fffe}-\\u{7ffff}',
  '\\u{8fffe}-\\u{8ffff}', '\\u{9fffe}-\\u{9ffff}', '\\u{afffe}-\\u{affff}', '\\u{bfffe}-\\u{bffff}',
  '\\u{cfffe}-\\u{cffff}', '\\u{dfffe}-\\u{10ffff}',
].join('')}]`, 'u');

const BLANKS = /[ \t]+/uy;

/** The lines of a text as a person has to see them. A break at the very end adds no line. */
export function exactLines(text) {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return exactOf(lines);
}

/** Lines as a person has to see them; many blank ones in a row are one line with their count. */
export function exactOf(lines) {
  const shown = [];
  for (let at = 0; at < lines.length;) {
    let blank = 0;
    while (at + blank < lines.length && isBlank(lines[at + blank])) blank += 1;
    if (blank > MAX_BLANK_LINES) {
      shown.push(`⏎×${blank}`);
      at += blank;
    } else {
      const next = at + Math.max(blank, 1);
      for (; at < next; at += 1) shown.push(exact(lines[at]));
    }
  }
  return shown;
}

/** One line as a person has to see it; a line break in it is escaped. */
export function exact(line) {
  let words = line.length;
  while (words > 0 && (line[words - 1] === ' ' || line[words - 1] === '\t')) words -= 1;
  let shown = '';
  for (let at = 0; at < line.length;) {
    BLANKS.lastIndex = at;
    const blanks = BLANKS.exec(line)?.[0];
    if (blanks) {
      shown += shownBlanks(blanks, at >= words ? 0 : at === 0 ? MAX_LEADING_COLUMNS : MAX_INNER_COLUMNS);
      at += blanks.length;
    } else {
      const point = line.codePointAt(at);
      const sign = String.fromCodePoint(point);
      shown += sign === '\n' || ESCAPED.test(sign) ? `\\u{${point.toString(16)}}` : sign;
      at += sign.length;
    }
  }
  return shown;
}

/** A run of spaces and tabs: as spaces up to `maxColumns`, as counts beyond. */
function shownBlanks(blanks, maxColumns) {
  const tabs = blanks.split('\t').length - 1;
  const columns = blanks.length - tabs + tabs * TAB_COLUMNS;
  if (columns <= maxColumns) return ' '.repeat(columns);
  return blanks.replace(/ +|\t+/gu, (same) => `${same[0] === '\t' ? '⇥' : '␣'}×${same.length}`);
}

function isBlank(line) {
  return /^[ \t]*$/u.test(line);
}

/** The lines of a change (`{kind, text}`) with all of them as a person has to see them. */
export function exactChange(lines) {
  const shown = [];
  for (let at = 0; at < lines.length;) {
    const { kind } = lines[at];
    let end = at;
    while (end < lines.length && lines[end].kind === kind) end += 1;
    shown.push(...exactOf(lines.slice(at, end).map(({ text }) => text)).map((text) => ({ kind, text })));
    at = end;
  }
  return shown;
}
