// The part of an answer that is still being written, as lines with their form: what the server will render once it
// stands, in few and safe shapes until then. Pure.

const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const FENCE = /^\s*(`{3,}|~{3,})/;

/** Marks of words, the longest first, and what they mean. */
const MARKS = [['**', 'strong'], ['__', 'strong'], ['`', 'code'], ['*', 'em'], ['_', 'em']];

/**
 * Lines of a draft: `{kind: 'text'|'heading'|'item'|'quote'|'rule'|'code', depth?, mark?, text}`.
 */
export function draftLines(text) {
  let fence = null;
  const lines = [];
  for (const line of text.split('\n')) {
    const found = line.match(FENCE)?.[1];
    if (found && (!fence || (found[0] === fence[0] && found.length >= fence.length))) {
      fence = fence ? null : found;
      continue;
    }
    const next = fence ? { kind: 'code', text: line } : lineOf(line);
    const last = lines.at(-1);
    if (goesOn(last, next)) lines[lines.length - 1] = { ...last, text: `${last.text} ${next.text.trim()}` };
    else lines.push(next);
  }
  return lines;
}

/** A paragraph's lines are one, as they will be. */
function goesOn(last, next) {
  return next.kind === 'text' && next.text.trim() !== '' && ['text', 'item', 'quote'].includes(last?.kind) && last.text.trim() !== '';
}

function lineOf(line) {
  const heading = line.match(HEADING);
  if (heading) return { kind: 'heading', depth: heading[1].length, text: heading[2] };
  // A table is one when it is whole.
  if (/^ {0,3}\|/.test(line)) return { kind: 'code', text: line };
  if (RULE.test(line)) return { kind: 'rule', text: '' };
  const item = line.match(ITEM);
  if (item) return { kind: 'item', depth: Math.min(3, Math.floor(item[1].replaceAll('\t', '    ').length / 2)), mark: /^\d/.test(item[2]) ? item[2] : '•', text: item[3] };
  const quote = line.match(QUOTE);
  if (quote) return { kind: 'quote', text: quote[1] };
  return { kind: 'text', text: line };
}

/**
 * The stretches of a line: `{kind: 'text'|'strong'|'em'|'code', text}`. A mark that is open at the end counts already
 * for code and strong words; a link shows its words.
 */
export function draftWords(line) {
  const words = [];
  let plain = '';
  const push = (kind, text) => {
    if (plain) words.push({ kind: 'text', text: plain });
    plain = '';
    if (text) words.push({ kind, text });
  };
  let at = 0;
  while (at < line.length) {
    const rest = line.slice(at);
    const link = rest.match(/^!?\[([^\]\n]*)\]\([^)\s]*\)/);
    const mark = link ? null : marked(rest, line[at - 1]);
    if (link) {
      plain += link[1];
      at += link[0].length;
    } else if (mark) {
      push(mark.kind, mark.text);
      at += mark.length;
    } else if (rest[0] === '\\' && /[\\`*_[\]#>-]/.test(rest[1] ?? '')) {
      plain += rest[1];
      at += 2;
    } else {
      // What is no mark is none as a whole.
      const run = rest.match(/^(\*+|_+|`+)/)?.[0] ?? rest[0];
      plain += run;
      at += run.length;
    }
  }
  push('text', '');
  return words;
}

function marked(rest, before) {
  const found = MARKS.find(([mark]) => rest.startsWith(mark));
  if (!found) return null;
  const [mark, kind] = found;
  // Inside a word a star or a line below is no mark: `2**10`, `snake_case`.
  if (kind !== 'code' && /[\p{L}\p{N}]/u.test(before ?? '')) return null;
  const inner = rest.slice(mark.length);
  if (!inner || (kind !== 'code' && /^\s/.test(inner))) return null;
  const end = inner.indexOf(mark);
  if (end > 0 && kind === 'em' && /\s/.test(inner[end - 1])) return null;
  if (end > 0) return { kind, text: inner.slice(0, end), length: end + 2 * mark.length };
  return end < 0 && kind !== 'em' ? { kind, text: inner, length: rest.length } : null;
}
