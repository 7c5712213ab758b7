// The commands that begin with a slash. Pure.

export const COMMANDS = [
  { name: 'compact', usage: '/compact [instructions]', says: 'Compact now; words after it steer the summary' },
  { name: 'undo', usage: '/undo', says: 'Bring back what the newest compaction or pruning left out' },
  { name: 'context', usage: '/context', says: 'Show what fills the window, and every compaction' },
  { name: 'pin', usage: '/pin <text>', says: 'Add a standing order: the model always sees it whole' },
  { name: 'orders', usage: '/orders', says: 'List the standing orders' },
  { name: 'unpin', usage: '/unpin <order>', says: 'Remove a standing order by its name or number: o1 or 1' },
  { name: 'fork', usage: '/fork', says: 'A new session that shares everything up to here' },
  { name: 'export', usage: '/export [jsonl]', says: 'Save the session as Markdown, or as it is stored' },
  { name: 'rename', usage: '/rename <title>', says: 'Give the session another title' },
  { name: 'retry', usage: '/retry', says: 'Try again after an error, or go on with what waits' },
  { name: 'resume', usage: '/resume', says: 'The same as /retry' },
  { name: 'model', usage: '/model [name]', says: 'Let another model answer; the history stays' },
  { name: 'new', usage: '/new', says: 'Begin a new session' },
  { name: 'help', usage: '/help', says: 'Keys and commands' },
];

/** Commands of the terminal that the page does without, and where it has the same. */
const PLACES = {
  show: 'The page shows the whole conversation already. A row of a compaction opens to what it replaced.',
  recall: 'The search finds anything that was said, in all sessions: Ctrl or ⌘ + k.',
  compactions: '/context opens the panel that lists compactions and prunes. Each has a row in the conversation, too.',
  preview: 'The page has no preview. In a terminal: `longhaul compact --dry-run SESSION`.',
  queue: 'Waiting messages stand above the field, each with its buttons.',
  sessions: 'The sessions are in the list at the side. Ctrl or ⌘ + k searches them.',
  quit: 'Close the tab to leave. Everything is kept, and the agent goes on.',
};

/**
 * `{name, rest}` if a text is a command; `unknown: true` if the page has none of that name, with `place` if it has the
 * same elsewhere. A text that goes on is none.
 */
export function parseCommand(text) {
  const found = text.trim().match(/^\/([a-z]+)(?:\s+([\s\S]*))?$/);
  if (!found) return null;
  const [, name, rest = ''] = found;
  const unknown = !COMMANDS.some((command) => command.name === name);
  const place = unknown && Object.hasOwn(PLACES, name) ? PLACES[name] : null;
  return { name, rest: rest.trim(), ...(unknown ? { unknown } : {}), ...(place ? { place } : {}) };
}

/** The commands that a beginning may become. */
export function completions(text) {
  const begun = text.match(/^\/([a-z]*)$/);
  return begun ? COMMANDS.filter((command) => command.name.startsWith(begun[1])) : [];
}
