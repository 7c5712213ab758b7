// Where the window is compacted, what that rests on, and why it has moved. Pure.
import { percent, tokens } from '../text/format.js';

const WINDOWS = {
  declared: 'as declared', server: 'as its server says', learned: 'learned from a request that was too long',
  catalogue: 'as the catalogue says', 'the newest call': 'as at the newest call', assumed: 'assumed',
};

/** What the point of the first threshold rests on, in a sentence; nothing without one. */
export function restsOn(report) {
  const [trigger] = report?.thresholds ?? [];
  if (!trigger) return '';
  const known = report.basis?.newMessagesEstimate ? 'a count that is estimated until the next answer' : 'a count that is exact';
  const error = report.expectedError ? `how far the count may be off (${percent(report.expectedError * 100)} %)` : known;
  return `Compacts at ${tokens(trigger.tokens)}: strategy ${trigger.name}, window ${tokens(report.window)} (${WINDOWS[report.windowSource] ?? report.windowSource}), ${tokens(report.outputReserve)} kept for the answer, and ${error}.`;
}

/**
 * Why the point is elsewhere than in an earlier report: `{from, to, why}`; `null` where it is not, or moved by less than
 * is seen.
 */
export function movedBetween(before, now) {
  const [from, to] = [before, now].map((report) => report?.thresholds?.[0]);
  if (!from || !to || Math.abs(from.tokens - to.tokens) < now.window / 100) return null;
  return { from: from.tokens, to: to.tokens, why: whyMoved(before, now) };
}

function whyMoved(before, now) {
  const reasons = [];
  if (before.thresholds[0].name !== now.thresholds[0].name) reasons.push(`the strategy is ${now.thresholds[0].name} now`);
  if (before.window !== now.window) reasons.push(`the window is ${tokens(now.window)} now (${WINDOWS[now.windowSource] ?? now.windowSource})`);
  if (before.outputReserve !== now.outputReserve) reasons.push(`${tokens(now.outputReserve)} are kept for the answer now`);
  if (before.expectedError !== now.expectedError) {
    const better = now.expectedError < before.expectedError;
    reasons.push(`the count is known ${better ? 'better' : 'less well'} (${percent(before.expectedError * 100)} % → ${percent(now.expectedError * 100)} %)`);
  }
  return reasons.length ? reasons.join('; ') : 'the trigger setting was changed';
}

/** The same as a line; nothing if it has not moved. */
export function movedLine(moved) {
  return moved ? `Compacts at ${tokens(moved.to)} now, before at ${tokens(moved.from)}: ${moved.why}.` : '';
}
