// Spans of the log. Pure.

/** `lh:12-40` -> `{from: 12, to: 40}`. */
export function rangeOf(handle) {
  const found = /^lh:(\d+)(?:-(\d+))?$/.exec(handle);
  return found ? { from: Number(found[1]), to: Number(found[2] ?? found[1]) } : null;
}

/** What an edit covers. */
export function rangesOf(edit) {
  return (edit.handles ?? []).map(rangeOf).filter(Boolean);
}
