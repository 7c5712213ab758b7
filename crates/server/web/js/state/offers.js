// Whether an edit of the view could be undone now: nothing is offered that would be refused. Pure.
import { rangesOf } from './ranges.js';

/**
 * `''` if it can be undone; else why not: `undone` since, `built-on` by a later edit, `no-room` for the original. What
 * the server said of it last holds; what happened since is seen here.
 */
export function undoOf(edit, edits) {
  if (!edit.active) return 'undone';
  const mine = rangesOf(edit);
  const touches = (other) => rangesOf(other).some((range) => mine.some(({ from, to }) => range.from <= to && from <= range.to));
  if (edits.some((other) => other.active && other.seq > edit.seq && touches(other))) return 'built-on';
  return edit.undo === 'no-room' ? 'no-room' : '';
}

/** What an undo without a name means: the newest edit, and why it is refused. */
export function newestUndo({ edits }) {
  const edit = edits.findLast((each) => each.active);
  return edit ? { edit, refused: undoOf(edit, edits) } : null;
}
