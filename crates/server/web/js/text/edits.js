// What a compaction did, in words. Pure.
import { count, plural, tokens } from './format.js';

const REASONS = {
  'token-limit': 'the window was filling up',
  'overflow-error': 'the model said that the request was too long',
  'model-switch': 'the new model has a smaller window',
  requested: 'you asked for it',
};

const CLASSES = {
  userConstraints: 'what you required', decisions: 'decisions', paths: 'paths', identifiers: 'names',
  errorLines: 'error lines', numbers: 'numbers',
};

/** `token_limit` and `token-limit` alike. */
export function reasonOf(edit) {
  return REASONS[(edit.reason ?? '').replaceAll('_', '-')] ?? null;
}

const NOT_UNDONE = {
  undone: ['undone', 'It was undone already: the model sees the original.'],
  'built-on': ['part of a later one', 'A later compaction was built on this one: undo that one first.'],
  'no-room': ['no room to undo', 'There is no room to undo it: the original would not fit. It stays in the log and can be looked up.'],
};

/** Why an edit cannot be undone, in a word and in a sentence. */
export function whyNot(refused) {
  return NOT_UNDONE[refused] ?? null;
}

/** What the server says of an undo that it refuses, in words of this page. */
export function refusedUndo({ code, message, tokens: needed, usable }) {
  if (code === 'already-undone') return whyNot('undone')[1];
  if (code === 'conflict') return whyNot('built-on')[1];
  if (code !== 'context-overflow') return message;
  const figures = needed && usable ? ` It would fill ${tokens(needed)} tokens, and ${tokens(usable)} can be used.` : '';
  return `The original does not fit into the window any more.${figures} It stays in the log and can be looked up.`;
}

// The second form is that of earlier releases.
const CUT_MESSAGE = ['the newest message does not fit', 'the newest message is longer than the window'];

/** Whether an edit, or its event, shows a message that does not fit by its beginning and its end. */
export function cutsMessage(edit) {
  return CUT_MESSAGE.some((start) => (edit.why ?? edit.costNote ?? '').startsWith(start));
}

/** Whether extracts stand where a model would have written. No field of an edit says so. */
export function isExtract(edit) {
  return edit.summary?.checked === false || /\bextracts? without a model\b/.test(edit.why ?? edit.costNote ?? '');
}

/** That no model wrote the summary, why, and what the answers cost that were not used. Nothing if a model wrote it. */
export function writerLine(edit) {
  if (!isExtract(edit)) return null;
  const refused = edit.summary?.reasons?.at(-1);
  const cost = (edit.why ?? edit.costNote ?? '').match(/summaries that were not used cost ([\d,]+) input and ([\d,]+) output tokens/);
  const spent = cost ? ` The answers that were not used cost ${cost[1]} input and ${cost[2]} output tokens.` : '';
  return `No model wrote the summary${refused ? ` (the answer was refused: ${refused})` : ''}: an extract stands in its place.${spent}`;
}

/** Messages that a compaction left out. */
export function leftOut(edit, summaries = 1) {
  return Math.max(0, (edit.originalMessages ?? 0) - (edit.compressedMessages ?? 0) + summaries);
}

/** `96.2K → 11.4K tokens` */
export function sizes(edit) {
  return `${tokens(edit.originalTokens)} → ${tokens(edit.compressedTokens)} tokens`;
}

/** The whole survival report: rows `{name, verbatim, recoverable, lost, total}`. */
export function survivalRows(survival) {
  return Object.entries(survival?.classes ?? {}).map(([name, tally]) => {
    const recoverable = tally.recoverableByModel + tally.recoverableByUser;
    return { name: CLASSES[name] ?? name, verbatim: tally.verbatim, recoverable, lost: tally.lost, total: tally.verbatim + recoverable + tally.lost };
  });
}

/** What survives, in one sentence. */
export function survivalLine(survival) {
  const rows = survivalRows(survival);
  const sum = (key) => rows.reduce((all, row) => all + row[key], 0);
  const total = sum('total');
  if (!total) return 'Everything can be looked up.';
  const lost = sum('lost');
  const end = lost ? `${plural(lost, 'fact')} lost` : 'the rest can be looked up, nothing is lost';
  const kept = sum('verbatim');
  if (kept === total) return `Every fact that was found in it (${count(total)}) is still in the window.`;
  return `${count(kept)} of ${count(total)} facts are still in the window; ${end}.`;
}
