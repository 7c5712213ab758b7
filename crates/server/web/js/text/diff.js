// The difference of two short texts, line by line. Pure.

/** Lines compared at most; longer texts are shown as replaced whole. */
const MOST = 1_500;

/**
 * @returns {{kind: 'same'|'added'|'removed', text: string}[]}
 */
export function diffLines(before, after) {
  const old = split(before);
  const now = split(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const same = (lines) => lines.map((text) => ({ kind: 'same', text }));
  return [
    ...same(old.slice(0, head)),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...same(old.slice(old.length - tail)),
  ];
}

/** The same with far unchanged lines left out: `{kind: 'gap', count}` stands for them. */
export function hunks(lines, context = 3) {
  const near = lines.map(() => false);
  lines.forEach((line, at) => {
    if (line.kind === 'same') return;
    for (let i = Math.max(0, at - context); i <= Math.min(lines.length - 1, at + context); i += 1) near[i] = true;
  });
  const shown = [];
  lines.forEach((line, at) => {
    if (near[at]) return shown.push(line);
    const last = shown.at(-1);
    if (last?.kind === 'gap') last.count += 1;
    else shown.push({ kind: 'gap', count: 1 });
  });
  return shown;
}

/** `{added, removed}` lines. */
export function tally(lines) {
  const of = (kind) => lines.filter((line) => line.kind === kind).length;
  return { added: of('added'), removed: of('removed') };
}

function split(text) {
  if (!text) return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** Longest common subsequence. */
function middle(old, now) {
  const removed = (text) => ({ kind: 'removed', text });
  const added = (text) => ({ kind: 'added', text });
  if (!old.length || !now.length || old.length * now.length > MOST * MOST) {
    return [...old.map(removed), ...now.map(added)];
  }
  const width = now.length + 1;
  const length = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      length[i * width + j] = old[i] === now[j]
        ? length[(i + 1) * width + j + 1] + 1
        : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      lines.push({ kind: 'same', text: old[i] });
      [i, j] = [i + 1, j + 1];
    } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
      lines.push(removed(old[i]));
      i += 1;
    } else {
      lines.push(added(now[j]));
      j += 1;
    }
  }
  return [...lines, ...old.slice(i).map(removed), ...now.slice(j).map(added)];
}
