// What went wrong with a run or an answer, in words, and what to do about it. Pure.
import { plural, words } from './format.js';

/** By stable code: what happened, and what helps. */
const FAILURES = {
  interrupted: ['Longhaul was stopped while it worked, and the answer was interrupted.', '“Try again” continues from here.'],
  'truncated-stream': ['The model server ended the answer early.', 'Its log names the cause, such as too little memory, a restart or a time limit. Then try again.'],
  network: ['The model server could not be reached, or the connection broke.', 'Check that it runs at this address, then try again.'],
  timeout: ['The model server did not answer in time.', 'Check whether it is busy or still loading, then try again.'],
  auth: ['The model server did not accept the key.', 'Set the right key where Longhaul is started, and start it again.'],
  'rate-limit-exceeded': ['The model server accepts no more requests for now.', 'Wait a little, then try again.'],
  'context-overflow': ['The request does not fit the window of the model.', 'Compact the session (/compact) or choose a model with a larger window.'],
  'invalid-request': ['The model server refused the form of the request.', 'Choose another model, or change the setting that the message names.'],
  refused: ['The model, or a filter of its provider, would not answer this.', 'Rephrase your message, or choose another model.'],
  'third-party': ['The model server failed.', 'Look for the cause in its log, then try again.'],
  storage: ['The disk or the database failed.', 'Check the free room on the disk, then try again.'],
  'max-compactions': ['The answer is longer than the window, although room was made several times.', 'Choose a model with a larger window, or begin a new session.'],
};

const KEPT = 'Everything up to here is kept.';

/** An account without credit has the code of a wrong key, but its key is right. */
const NO_CREDIT = 'the account has no credit left';
const PAYMENT = ['The account at the provider of the model has no credit left, or a payment is due.', 'Pay there or choose another model, then try again.'];

/** Words of errors that say no more than their code does. */
const PLAIN = ['the process ended during the run', 'the process ended during the call'];

/** `{text, detail, help}` of a failed run; `detail` is what was said of it beyond its kind. */
export function failureOf(error) {
  const isPayment = error?.code === 'auth' && Boolean(error.message?.startsWith(NO_CREDIT));
  const [text, help] = isPayment ? PAYMENT : FAILURES[error?.code] ?? ['The run failed.', 'Try again. If it fails again, the log of Longhaul names the cause.'];
  const early = error?.code === 'truncated-stream' ? error.message?.match(/^the model server at (\S+) ended its answer early/)?.[1] : null;
  if (early) return { text: `The model server at ${early} ended the answer early. ${KEPT}`, detail: '', help };
  const detail = error?.message && !PLAIN.includes(error.message) ? upper(error.message) : '';
  return { text: `${text} ${KEPT}`, detail, help };
}

function upper(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const CUTS = {
  cancelled: 'Stopped here. The model sees what was said.',
  interrupted: 'Longhaul was stopped here, in mid-answer.',
  'truncated-stream': 'The model server ended the answer here.',
  'context-overflow': 'The model ran out of its window here.',
  lost: 'The connection to the model failed here.',
};

/** What stands below an answer that is not whole; nothing below one that is. */
export function cutOf({ interrupted, error }) {
  if (interrupted === 'cancelled') return CUTS.cancelled;
  if (interrupted !== 'lost') return '';
  return `${CUTS[error?.code] ?? CUTS.lost} People see this part; the model does not.`;
}

/** What stands where a beginning ends that the answer goes on with. */
export function breakOf({ error }) {
  return error ? 'The connection broke here; the answer goes on.' : 'The answer was paused here, and goes on.';
}

/** What stands for a lost attempt at an answer that came later. */
export function attemptOf({ text, reasoning }) {
  const said = words(text) ? plural(words(text), 'word') : `${plural(words(reasoning), 'word')} of thought`;
  return `An attempt broke off after ${said}; the model does not see it`;
}
