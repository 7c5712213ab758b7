// The steps of a session as columns of a chart. Pure.

/** Steps as at most `most` columns; of several in one the largest stands for all. */
export function columnsOf(steps, most) {
  const each = Math.max(1, Math.ceil(steps.length / most));
  const columns = [];
  for (let at = 0; at < steps.length; at += each) {
    const group = steps.slice(at, at + each);
    const largest = group.reduce((one, other) => (other.input > one.input ? other : one));
    columns.push({
      ...largest, cached: Math.min(largest.cached, largest.input), first: at + 1, last: at + group.length,
      fromSeq: group[0].seq, toSeq: group.at(-1).seq,
    });
  }
  return columns;
}

/** Edits between columns: `at` is how many columns lie before. */
export function marksOf(edits, columns) {
  return edits.map((edit) => ({ edit, at: columns.filter((column) => column.fromSeq < edit.seq).length }));
}

/** A round number at or above a value: 1, 2 or 5 times a power of ten. */
export function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}
