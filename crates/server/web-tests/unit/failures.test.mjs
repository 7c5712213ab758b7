import assert from 'node:assert/strict';
import { test } from 'node:test';
import { standing } from '../../web/js/controls/sessions.js';
import { outcome } from '../../web/js/text/calls.js';
import { cutOf, failureOf } from '../../web/js/text/failures.js';
import { movedBetween, movedLine, restsOn } from '../../web/js/meter/trigger.js';

test('a failure is said in words: what happened, what is kept, what helps', () => {
  const early = failureOf({ code: 'truncated-stream', message: 'the model server at http://localhost:1234 ended its answer early: x' });
  assert.equal(early.text, 'The model server at http://localhost:1234 ended the answer early. Everything up to here is kept.');
  assert.equal(early.detail, '');
  assert.match(early.help, /log/);
  const killed = failureOf({ code: 'interrupted', message: 'the process ended during the run' });
  assert.match(killed.text, /^Longhaul was stopped/);
  assert.equal(killed.detail, '', 'what says no more is not said twice');
  const unpaid = failureOf({ code: 'auth', message: 'the account has no credit left, or a payment is due: pay (HTTP 429)' });
  assert.match(unpaid.text, /no credit left/);
  assert.doesNotMatch(unpaid.text + unpaid.help, /key/, 'the key is right');
  assert.match(failureOf({ code: 'auth', message: 'no such key' }).text, /did not accept the key/);
  assert.equal(failureOf(undefined).text, 'The run failed. Everything up to here is kept.');
});

test('a cut says who cut', () => {
  assert.match(cutOf({ interrupted: 'lost', error: { code: 'interrupted' } }), /^Longhaul was stopped here/);
  assert.match(cutOf({ interrupted: 'lost', error: { code: 'truncated-stream' } }), /^The model server ended/);
  assert.match(cutOf({ interrupted: 'lost' }), /^The connection to the model failed/);
  assert.equal(cutOf({ interrupted: 'paused' }), '');
});

test('a session that failed stands otherwise than one at rest', () => {
  assert.equal(standing({ status: 'idle', lastFinishReason: 'error' }), 'failed');
  assert.equal(standing({ status: 'idle', lastFinishReason: 'stop' }), 'idle');
  assert.equal(standing({ status: 'streaming', lastFinishReason: 'error' }), 'streaming');
});

test('a denied call says why, from its result alone', () => {
  const denied = (reason) => outcome({ status: 'cancelled', result: { content: [{ type: 'text', text: `[Not run: ${reason}]` }] } });
  assert.equal(denied('use the other file'), 'denied: use the other file');
  assert.equal(denied('a person said no'), 'denied');
  assert.equal(outcome({ status: 'cancelled', result: { content: [{ type: 'text', text: 'Cancelled.' }] } }), 'cancelled');
});

const REPORT = { window: 16_000, outputReserve: 4_000, expectedError: 0.1, windowSource: 'server', thresholds: [{ name: 'adaptive', tokens: 9_000 }] };

test('where it is compacted says what that rests on, and a move says why', () => {
  assert.equal(restsOn(REPORT), 'Compacts at 9K: strategy adaptive, window 16K (as its server says), 4K kept for the answer, and how far the count may be off (10 %).');
  assert.match(restsOn({ ...REPORT, expectedError: 0 }), /, and a count that is exact\.$/);
  assert.match(restsOn({ ...REPORT, expectedError: 0, basis: { newMessagesEstimate: 900 } }), /, and a count that is estimated until the next answer\.$/);
  const moved = movedBetween(REPORT, { ...REPORT, expectedError: 0.006, thresholds: [{ name: 'adaptive', tokens: 9_900 }] });
  assert.equal(movedLine(moved), 'Compacts at 9.9K now, before at 9K: the count is known better (10 % → 0.6 %).');
  const learned = movedBetween(REPORT, { ...REPORT, window: 12_000, windowSource: 'learned', thresholds: [{ name: 'adaptive', tokens: 6_000 }] });
  assert.match(movedLine(learned), /the window is 12K now \(learned from a request that was too long\)/);
  assert.equal(movedBetween(REPORT, { ...REPORT, thresholds: [{ name: 'adaptive', tokens: 9_050 }] }), null, 'less than is seen');
  assert.equal(movedBetween(null, REPORT), null);
});
