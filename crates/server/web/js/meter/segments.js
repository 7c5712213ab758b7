// The window as parts of a bar and rows of a table, from the meter's report. Pure.
import { count, percent, tokens } from '../text/format.js';
import { restsOn } from './trigger.js';

/** Characters of a token, to guess the share of a summary in the text. */
const CHARS_PER_TOKEN = 4;

/**
 * The parts from left to right: `{key, label, tokens, estimated}`; they add up to the window, or to the total where
 * that is larger.
 *
 * @param {string[]} summaries the texts that stand for what was compacted
 */
export function segmentsOf(report, summaries = []) {
  const { total, window, messages, basis } = report;
  const allEstimated = isEstimated(report);
  const tools = report.tools.reduce((sum, share) => sum + share.tokens, 0);
  let results = messages.toolResults;
  let words = Math.max(0, total - report.systemPrompt - tools - results);
  const summary = Math.min(words, Math.ceil(summaries.reduce((sum, text) => sum + text.length, 0) / CHARS_PER_TOKEN));
  words -= summary;
  const fresh = allEstimated ? 0 : Math.min(basis.newMessagesEstimate, words + results);
  const ofResults = words + results ? Math.min(results, Math.round((fresh * results) / (words + results))) : 0;
  results -= ofResults;
  words -= Math.min(words, fresh - ofResults);
  const reserve = Math.min(report.outputReserve, Math.max(0, window - total));
  const free = Math.max(0, window - total - reserve);
  return [
    { key: 'system', label: 'System prompt', tokens: report.systemPrompt, estimated: allEstimated },
    { key: 'tools', label: 'Tools', tokens: tools, estimated: allEstimated },
    { key: 'summary', label: 'Summary', tokens: summary, estimated: true },
    { key: 'messages', label: 'Messages', tokens: words, estimated: allEstimated },
    { key: 'results', label: 'Tool results', tokens: results, estimated: allEstimated },
    { key: 'new', label: 'New since last call', tokens: fresh, estimated: true },
    { key: 'free', label: 'Free', tokens: free, estimated: false },
    { key: 'reserve', label: 'Reserve', tokens: reserve, estimated: false },
  ].filter((segment) => segment.tokens > 0);
}

/** Whether the whole total is an estimate. */
export function isEstimated(report) {
  return !report.source.startsWith('reported');
}

/** Tick marks: where it is compacted, and where the reserve begins, as shares of the window. */
export function ticksOf(report) {
  const [trigger] = report.thresholds;
  const ticks = [];
  if (trigger && trigger.tokens < report.window) ticks.push({ key: 'trigger', label: restsOn(report), at: trigger.tokens / report.window });
  if (report.outputReserve) ticks.push({ key: 'reserve', label: `${tokens(report.outputReserve)} are kept for the answer`, at: Math.max(0, 1 - report.outputReserve / report.window) });
  return ticks;
}

/** Whether nobody states how large the window is. */
export function isAssumed(report) {
  return report?.windowSource === 'assumed';
}

/** The bar in words: `52.1K / 200K · 26 % · accurate to 0.6 %`, and whether the window is assumed. */
export function captionOf(usage, report = null) {
  if (!usage) return '';
  const share = `${tokens(usage.total)} / ${tokens(usage.window)} · ${percent(usage.percent)} %`;
  return `${share} · ${accuracyOf(usage)}${isAssumed(report) ? ' · window assumed' : ''}`;
}

export function accuracyOf({ expectedError, total, estimated }) {
  if (!total) return 'nothing yet';
  if (expectedError) return `accurate to ${percent(expectedError * 100)} %`;
  if (estimated) return 'estimated';
  return 'counted by the model';
}

/** The same for ears. */
export function spokenOf(usage, report) {
  if (!usage) return 'The context window is not known yet.';
  const [trigger] = report?.thresholds ?? [];
  const until = trigger && trigger.tokens > usage.total ? ` It is compacted at ${tokens(trigger.tokens)}.` : '';
  return `The window is ${percent(usage.percent)} percent full: ${tokens(usage.total)} of ${tokens(usage.window)} tokens, ${accuracyOf(usage)}.${until}`;
}

const WHO = {
  declared: 'you declared it', server: 'the server said so', learned: 'learned from an overflow', catalogue: 'from the catalogue',
  'the newest call': 'as at the newest call', assumed: 'assumed, because no source states it. Declare it with model.context_window',
};

/** The rows of the table: `{label, tokens, note?, mark?, indent?, says}`. */
export function tableOf(report) {
  const mark = isEstimated(report) ? 'estimated' : null;
  const back = report.framing ? 'counted' : 'back-calculated';
  const { messages, basis } = report;
  const rows = [
    { label: 'Total', tokens: report.total, strong: true, note: `${percent(report.percent)} %`, mark: report.source, says: `What the next request will have as input. It rests on: ${report.source}; parts were counted by ${report.counter}. The planner compares it with the expected error (${percent(report.expectedError * 100)} %) on top.` },
    { label: 'System prompt', tokens: report.systemPrompt, mark: 'estimated', says: 'The instructions that come first in every call.' },
    ...report.tools.map((share) => ({ label: `Tools · ${share.source}`, tokens: share.tokens, mark: 'estimated', says: 'Names, descriptions and schemas of the tools. They are sent with every call.' })),
    { label: 'Messages', tokens: messages.total, mark: mark ?? back, says: 'The conversation as the model sees it. Where only the whole was counted, this is what is left beside system prompt and tools.' },
    { label: 'Text', tokens: messages.text, indent: true, says: 'What you and the agent said, summaries, and the framing of messages.' },
    { label: 'Tool calls and results', tokens: messages.toolResults, indent: true, says: 'Arguments and outputs. Old outputs are the first to be pruned.' },
    { label: 'Reasoning', tokens: messages.reasoning, indent: true, says: 'Reasoning that is sent back to this model. Reasoning that it drops is not counted.' },
    { label: 'Pictures and files', tokens: messages.media, indent: true, says: 'By the formula of the provider.' },
    { label: 'Framing', tokens: report.framing, says: 'The difference between an exact count and the sum of the estimated parts.', unless: 0 },
    { label: 'Reserved for the answer', tokens: report.outputReserve, says: 'Kept free, so that an answer of full length fits.' },
    { label: 'Free', tokens: report.freeSpace, says: 'Window minus total minus reserve.' },
    { label: 'Window', tokens: report.window, strong: true, note: report.windowSource, says: `The most that the model takes at once: ${WHO[report.windowSource] ?? report.windowSource}.` },
    ...report.thresholds.map((threshold) => ({
      label: threshold.name === 'usable' ? 'Usable at most' : `Compacts at (${threshold.name})`, tokens: threshold.tokens,
      says: threshold.name === 'usable' ? 'Beyond this a request would not fit with the answer and the expected error.' : 'Where the strategy acts: it prunes or compacts before the next call.',
    })),
    { label: 'Tool results pruned', number: report.pruned, says: 'Outputs that the model sees as a placeholder. It can look each of them up.' },
    { label: 'Messages compacted', number: report.compacted, says: 'Messages that a summary stands for, or that were left out. Every one is in the log.' },
    { label: 'Compactions so far', number: report.compactionCount, says: 'In this session, undone ones included.' },
    { label: 'Input of the last call', tokens: basis.lastInputTokens, says: 'As the provider reported it, cached tokens included.' },
    { label: 'Output of the last call', tokens: basis.lastOutputTokens, says: 'The part of it that is sent back.' },
    basis.lastInputTokens === null
      ? { label: 'Estimated as a whole', tokens: basis.newMessagesEstimate, mark: 'estimated', says: 'No call has counted the view as it is now. The next one will.' }
      : { label: 'New since then', tokens: basis.newMessagesEstimate, mark: 'estimated', says: 'Everything that came after the last call: results, messages, notes.' },
    { label: 'All calls: input', tokens: report.tokenUsage.inputTokens, says: `For cost only, no decision rests on it. ${count(report.tokenUsage.cacheReadTokens ?? 0)} of them came from the provider’s cache.` },
    { label: 'All calls: output', tokens: report.tokenUsage.outputTokens, says: 'For cost only, reasoning included.' },
  ];
  return rows.filter((row) => (row.tokens ?? row.number) !== undefined && (row.tokens ?? row.number) !== null && !(row.unless === 0 && row.tokens === 0) && !(row.indent && row.tokens === 0));
}
