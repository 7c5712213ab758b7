// What is told of events beyond the conversation: toasts for what happened out of sight, words for those who listen.
import { firstLine, tokens } from './text/format.js';
import { cutsMessage, reasonOf, sizes, survivalLine, whyNot, writerLine } from './text/edits.js';
import { subject } from './text/calls.js';
import { exact } from './text/exact.js';

export function news(events, state, page) {
  for (const event of events) {
    if (Object.hasOwn(NEWS, event.name)) NEWS[event.name](event, state, page);
  }
}

const NEWS = {
  async 'context:compressed'(event, state, page) {
    const writer = writerLine(event);
    page.announce([`Context compacted: ${sizes(event)}.`, writer, survivalLine(event.survival)].filter(Boolean).join(' '));
    const reason = reasonOf(event);
    // Whether it could be undone only the server knows by now.
    const undo = await page.undoOf(event.compactionId);
    if (undo === null) return;
    const refused = whyNot(undo);
    page.toast({
      title: `Context compacted: ${sizes(event)}`,
      lines: [reason ? `Because ${reason}.` : event.costNote, writer, survivalLine(event.survival), refused?.[1]],
      actions: [
        ...(refused ? [] : [{ label: 'Undo', symbol: 'undo', run: () => page.undo(event.compactionId) }]),
        { label: 'Show', run: async () => page.reveal(event.compactionId) },
      ],
    });
  },

  'context:pruned'(event, state, page) {
    if (cutsMessage(event)) {
      page.announce('Your message does not fit into the window beside the system prompt, the tools and the room for the answer. The model sees its beginning and its end, and can look up the rest.');
      return;
    }
    page.announce(`${event.prunedCount} old tool results pruned, ${tokens(event.savedTokens)} tokens freed. All can be looked up.`);
  },

  'context:compact-failed'({ reason }, state, page) {
    page.toast({ title: 'Compaction failed', lines: [firstLine(reason, 200), 'Nothing was changed.'], tone: 'failure' });
  },

  'context:omitted'({ compactionId, reason }, state, page) {
    const said = firstLine(reason, 200);
    page.announce(`A part that the model's server refuses was left out: ${said}`);
    page.toast({
      title: 'A part was left out',
      lines: [`The model's server refuses it: ${said}`, 'The conversation goes on without it.'],
      actions: [{ label: 'Undo', symbol: 'undo', run: () => page.undo(compactionId) }],
      tone: 'failure',
      subject: compactionId,
    });
  },

  'context:restored'(event, state, page) {
    // An omission that did not help is taken back, and the toast about it would be wrong.
    page.closeToastAbout(event.compactionId);
    page.announce(`Undone. The window holds ${tokens(event.tokens)} tokens.`);
  },

  'llm:switched'({ newConfig }, state, page) {
    page.announce(`The model is now ${newConfig?.model ?? 'another one'}.`);
  },

  'tool:approval-request'(event, state, page) {
    page.announce(`The agent asks: may ${exact(event.toolName ?? 'a tool')} run? ${firstLine(subject({ name: event.toolName, argsText: event.argsText }), 100)}`);
  },

  'llm:tool-result'(event, state, page) {
    if (event.status === 'error') page.announce(`${exact(event.toolName)} failed.`);
  },

  'run:complete'({ finishReason, error }, state, page) {
    const answer = state.messages.findLast((message) => message.kind === 'model');
    if (finishReason === 'stop') page.announce(`The agent answered. ${firstLine(answer?.text ?? '', 120)}`);
    else page.announce(error ? `The run ended: ${error.message}` : 'The run ended.');
  },
};
