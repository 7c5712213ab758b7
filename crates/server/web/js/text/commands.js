// The commands that begin with a slash. Pure.

export const COMMANDS = [
  { name: 'compact', usage: '/compact [instructions]', says: 'Compact now; words after it steer the summary' },
  { name: 'undo', usage: '/undo', says: 'Bring back what the newest compaction or pruning left out' },
  { name: 'pin', usage: '/pin <text>', says: 'Add a standing order: the model always sees it whole' },
  { name: 'orders', usage: '/orders', says: 'List the standing orders' },
  { name: 'unpin', usage: '/unpin <name>', says: 'Remove a standing order' },
  { name: 'fork', usage: '/fork', says: 'A new session that shares everything up to here' },
  { name: 'export', usage: '/export [jsonl]', says: 'Save the session as Markdown, or as it is stored' },
  { name: 'rename', usage: '/rename <title>', says: 'Give the session another title' },
  { name: 'retry', usage: '/retry', says: 'Try again after an error, or go on with what waits' },
  { name: 'resume', usage: '/resume', says: 'The same as /retry' },
  { name: 'model', usage: '/model [name]', says: 'Let another model answer; the history stays' },
  { name: 'new', usage: '/new', says: 'Begin a new session' },
  { name: 'help', usage: '/help', says: 'Keys and commands' },
];

/** `{name, rest}` if a text is a command; `unknown: true` if nobody knows it. A text that goes on is none. */
export function parseCommand(text) {
  const found = text.trim().match(/^\/([a-z]+)(?:\s+([\s\S]*))?$/);
  if (!found) return null;
  const [, name, rest = ''] = found;
  const unknown = !COMMANDS.some((command) => command.name === name);
  return { name, rest: rest.trim(), ...(unknown ? { unknown } : {}) };
}

/** The commands that a beginning may become. */
export function completions(text) {
  const begun = text.match(/^\/([a-z]*)$/);
  return begun ? COMMANDS.filter((command) => command.name.startsWith(begun[1])) : [];
}
