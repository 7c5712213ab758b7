// What one line says of a tool call: the argument that matters, and how it ended. Pure.
import { count, firstLine, lineCount, plural } from './format.js';
import { diffLines, tally } from './diff.js';
import { exact, exactLines } from './exact.js';
import { scopeWords } from './scope.js';

/** Arguments that say what a call is about, the first that is there. */
const TELLING = ['command', 'pattern', 'path', 'query', 'handle', 'url', 'file', 'name', 'text'];

/** The arguments as an object; `null` if the model wrote something else. */
export function argumentsOf(call) {
  try {
    const value = JSON.parse(call.argsText || '{}');
    return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The argument that matters, in one line. */
export function subject(call) {
  const args = argumentsOf(call);
  if (!args) return firstLine(exact(call.argsText), 200);
  const key = TELLING.find((name) => typeof args[name] === 'string' && args[name]);
  const value = key ? args[key] : Object.values(args).find((each) => typeof each === 'string');
  if (value === undefined) return '';
  const line = exactLines(value.trim()).map((each) => each.trim()).filter(Boolean).join(' ⏎ ');
  const range = call.name === 'read' && args.offset ? `:${exact(String(args.offset))}` : '';
  const where = key === 'pattern' && args.path ? ` in ${exact(String(args.path))}` : '';
  return firstLine(line, 300) + range + where;
}

/** The text of a result. */
export function resultText(call) {
  return (call.result?.content ?? []).filter((part) => part.type === 'text').map((part) => part.text).join('');
}

/** What a change would do to a file: `{path, lines, isWhole}`, or nothing. */
export function change(call) {
  const args = argumentsOf(call);
  if (!args || typeof args.path !== 'string') return null;
  if (typeof args.old === 'string' && typeof args.new === 'string') {
    return { path: args.path, lines: diffLines(args.old, args.new), everywhere: args.replaceAll === true, isWhole: false };
  }
  if (call.name === 'write' && typeof args.content === 'string') {
    return { path: args.path, lines: diffLines('', args.content), everywhere: false, isWhole: true };
  }
  return null;
}

/** Arguments that the view of a change has not shown; all of them where it is only guessed to be one. */
export function beside(call, args, changed) {
  const shown = ['edit', 'write'].includes(call.name)
    ? ['path', 'description', ...(changed.isWhole ? ['content'] : ['old', 'new']), ...(changed.everywhere ? ['replaceAll'] : [])]
    : [];
  return Object.fromEntries(Object.entries(args).filter(([key]) => !shown.includes(key)));
}

/** What "Always allow" at a question allows, in full; `limited` is the limited permission that it offers, too. */
export function alwaysAllows(tool, limited = null) {
  const which = tool === 'bash' ? 'every bash command' : `every call of ${exact(tool)}, with any arguments`;
  const all = `“Always allow ${exact(tool)}” allows ${which}, in this session: those that wait now and all later ones. It ends when you take it back or close this tab.`;
  return limited ? `${all} “${alwaysLabel(limited)}” does the same for ${limitedTo(limited)}.` : all;
}

/** The label of the button that gives a limited permission. */
export function alwaysLabel(limited) {
  return limited.path === undefined ? `Always allow ${scopeWords(limited)}` : `Always allow changes of ${scopeWords(limited)}`;
}

function limitedTo(limited) {
  if (limited.words) return `commands that begin with “${exact(limited.words.join(' '))}” and contain no second command`;
  if (limited.command !== undefined) return 'this command alone, word for word';
  return `calls of ${exact(limited.tool)} with this path`;
}

/** How a call stands or ended, in a few words. */
export function outcome(call) {
  switch (call.status) {
    case 'pending': return call.approval?.decision ? 'starts' : call.approval ? 'waits for you' : 'waits';
    case 'running': return 'runs';
    case 'cancelled': return notRun(call) ?? (call.approval?.decision === 'deny' ? 'denied' : 'cancelled');
    case 'interrupted': return 'interrupted: whether it had an effect is unknown';
    case 'error': return failed(call);
    default: return completed(call);
  }
}

/** Why a call was not allowed, as its result has it; `null` for one that was stopped. */
function notRun(call) {
  const reason = resultText(call).match(/^\[Not run: ([^]*)\]\s*$/)?.[1];
  if (!reason) return null;
  return reason === 'a person said no' ? 'denied' : `denied: ${firstLine(reason, 90)}`;
}

function failed(call) {
  const text = resultText(call);
  const exit = text.match(/\[exit code (\d+)\]\s*$/);
  if (exit) return `exit ${exit[1]}`;
  return firstLine(text.replace(/^Error: /, ''), 90) || 'failed';
}

/** Built-in tools that end their output with a note for the model. */
const NOTING = ['bash', 'read', 'ls', 'glob', 'grep'];

/** The output of a tool without its note, such as `[exit code 0]` or `[All 45 lines.]`: the note is no line of it. */
function withoutNote(tool, text) {
  if (!NOTING.includes(tool)) return text;
  const output = text.replace(/(?:^|\n)\[[^\n]*(?:exit code \d+|\.)\]\s*$/, '');
  return output === '(no output)' ? '' : output;
}

function completed(call) {
  if (!call.result) return '';
  const { truncated } = call.result;
  if (truncated) {
    const all = truncated.totalChars;
    return `${count(all - truncated.omittedChars)} of ${count(all)} characters · rest kept`;
  }
  const changed = ['edit', 'write'].includes(call.name) ? change(call) : null;
  if (changed) {
    const { added, removed } = tally(changed.lines);
    return changed.isWhole ? plural(added, 'line') : `+${added} −${removed}`;
  }
  const lines = lineCount(withoutNote(call.name, resultText(call)));
  const media = call.result.content.filter((part) => part.type !== 'text').length;
  if (media && !lines) return plural(media, 'file');
  return lines ? plural(lines, 'line') : 'no output';
}
