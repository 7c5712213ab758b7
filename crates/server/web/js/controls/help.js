// The list of keys and commands.
import { byId, h, show } from '../dom.js';
import { COMMANDS } from '../text/commands.js';

export const KEYS = [
  ['Enter', 'Send'],
  ['Shift + Enter', 'A new line'],
  ['Esc', 'Close what has the focus (dialog, menu, list or panel); else stop the agent; else close what is still open'],
  ['Alt + r', 'To the question that waits for you: Enter allows, Tab goes on to Deny'],
  ['↑ in an empty field', 'Edit the last message that waits'],
  ['/', 'To the field; there: commands'],
  ['n', 'New session'],
  ['m', 'The context panel'],
  ['Ctrl or ⌘ + k', 'Search all sessions'],
  ['Alt + ↑ ↓', 'The session before, the next one'],
  [',', 'Settings'],
  ['?', 'This list'],
];

export function openHelp() {
  const dialog = byId('help');
  const keys = KEYS.map(([key, says]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, says)]).flat();
  const commands = COMMANDS.map(({ usage, says }) => [h('dt', {}, h('code', {}, usage)), h('dd', {}, says)]).flat();
  show(byId('help-body'), h('h3', {}, 'Keys'), h('dl', {}, keys), h('h3', {}, 'Commands'), h('dl', {}, commands));
  if (!dialog.open) dialog.showModal();
}
