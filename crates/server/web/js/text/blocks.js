// Markdown that grows, split into blocks that will not change any more and the open rest. Pure.

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const ITEM = /^ {0,3}([-*+]|\d{1,9}[.)])(\s|$)/;
const INDENTED = /^( {2,}|\t)/;

/**
 * Splits a text at blank lines between blocks. A fence, and a list with blank lines in it, stay whole. The last
 * block is open while more may come.
 *
 * @returns {{closed: string[], tail: string}}
 */
export function splitBlocks(text, isOpen) {
  const blocks = [];
  const lines = text.split('\n');
  let begun = [];
  let fence = null;
  let isList = false;
  let blank = false;
  const close = () => {
    while (begun.length && !begun.at(-1).trim()) begun.pop();
    if (begun.length) blocks.push(begun.join('\n'));
    begun = [];
    isList = false;
  };
  for (const line of lines) {
    if (!fence && blank && line.trim() && begun.length && !(isList && goesOn(line))) close();
    if (begun.length === 0 && line.trim()) isList = ITEM.test(line);
    begun.push(line);
    fence = fenceAfter(fence, line);
    blank = !fence && !line.trim();
  }
  if (!isOpen) {
    close();
    return { closed: blocks, tail: '' };
  }
  const tail = begun.join('\n');
  return { closed: blocks, tail: tail.trim() ? tail.replace(/^\n+/, '') : '' };
}

/** What a fenced block holds, without its fence, so that it stands as it will stand; `null` if it is none. */
export function fenced(text, isOpen) {
  const lines = text.split('\n');
  const fence = lines[0].match(FENCE)?.[1];
  if (!fence || (isOpen && lines.length === 1)) return null;
  const closes = !isOpen && lines.length > 1 && fenceAfter(fence, lines.at(-1)) === null;
  return lines.slice(1, closes ? -1 : undefined).join('\n');
}

/** Whether a line after a blank one still belongs to the list before it. */
function goesOn(line) {
  return ITEM.test(line) || INDENTED.test(line);
}

function fenceAfter(fence, line) {
  const found = line.match(FENCE)?.[1];
  if (!found) return fence;
  if (!fence) return found;
  const closes = found[0] === fence[0] && found.length >= fence.length && !line.trim().slice(found.length).trim();
  return closes ? null : fence;
}
