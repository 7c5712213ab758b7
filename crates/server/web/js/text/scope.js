// The limited permissions that a person can give with "always": the first words of a command, a command, or a path. A
// permission covers a later call only if the call cannot do more than the permission shows. Pure. The terminal has the
// same rules: `docs/approval-scope.json` has the cases of both.
import { exact } from './exact.js';

/** Arguments of `bash` that a permission may ignore: neither changes what runs. */
export const OTHER_ARGUMENTS = ['timeoutMs', 'description'];

/** Programs whose second word names the work. For others it is an operand: `rm build` would cover `rm build /`. */
export const WITH_SUBCOMMANDS = ['cargo', 'git', 'npm', 'pnpm', 'yarn', 'bun', 'deno', 'go', 'make', 'just', 'pip', 'pip3', 'uv', 'poetry', 'rustup', 'dotnet', 'gradle', './gradlew', 'mvn', './mvnw', 'bundle', 'composer', 'gh', 'docker', 'podman', 'kubectl', 'terraform', 'mix', 'rake', 'swift', 'zig'];

/** Second words that say nothing without the third. */
export const NESTED_SUBCOMMANDS = ['run', 'exec', 'x', 'dlx', 'tool', 'shell', 'run-script', 'compose', 'remote', 'stash', 'submodule', 'worktree'];

/** Programs that read or check, whatever their operands are. */
export const SIMPLE = ['ls', 'cat', 'head', 'tail', 'wc', 'grep', 'stat', 'du', 'pwd', 'pytest', 'ruff', 'mypy', 'eslint', 'tsc'];

/** Signs with a meaning for the shell, as characters: what follows one of them may be another command. */
const SHELL_SIGNS = [...';&|<>`$(){}\\\n\r\0'];

const parse = (argsText) => {
  try {
    const value = JSON.parse(argsText);
    return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
};
const text = (value) => (typeof value === 'string' && value ? value : null);
const words = (command) => command.split(/[ \t]/).filter(Boolean);
const isName = (word) => word !== undefined && /^[A-Za-z0-9_][A-Za-z0-9_./:@-]*$/.test(word);

/** The limited permission that a call suggests, `{tool, words|command|path}`; `null` if only the tool can be allowed. */
export function limitedScope({ name: tool, argsText }) {
  const values = parse(argsText);
  if (!values) return null;
  if (tool === 'bash') {
    const command = commandOf(values);
    if (command === null) return null;
    const prefix = commandPrefix(command);
    return prefix ? { tool, words: prefix } : { tool, command };
  }
  const path = ['edit', 'write'].includes(tool) ? text(values.path) : null;
  return path === null ? null : { tool, path };
}

/** Whether a permission covers a call. */
export function covers(scope, { name, argsText }) {
  if (scope.tool !== name) return false;
  const values = parse(argsText);
  if (scope.words) {
    const command = values && commandOf(values);
    if (command === null || !isPlain(command)) return false;
    const begin = words(command).slice(0, scope.words.length);
    return begin.length === scope.words.length && begin.every((word, at) => word === scope.words[at]);
  }
  if (scope.command !== undefined) return values !== null && commandOf(values) === scope.command;
  if (scope.path !== undefined) return values !== null && text(values.path) === scope.path;
  return true;
}

/** What a permission covers, in words. */
export function scopeWords(scope) {
  if (scope.words) return `${scope.words.join(' ')} …`;
  if (scope.command !== undefined) return 'exactly this command';
  return exact(scope.path ?? scope.tool);
}

/** The command of a call of `bash`; `null` if other arguments change what it does. */
function commandOf(values) {
  const isKnown = (key) => key === 'command' || OTHER_ARGUMENTS.includes(key);
  return Object.keys(values).every(isKnown) ? text(values.command) : null;
}

/** The first words of a command that say what it does; `null` if no prefix of it does. */
function commandPrefix(command) {
  if (!isPlain(command)) return null;
  const [program, work, third] = words(command);
  if (SIMPLE.includes(program)) return [program];
  if (!WITH_SUBCOMMANDS.includes(program) || !isName(work)) return null;
  if (!NESTED_SUBCOMMANDS.includes(work)) return [program, work];
  return isName(third) ? [program, work, third] : null;
}

/** Whether a command is one command that hides nothing and whose paths do not lead upwards. */
function isPlain(command) {
  const goesUp = (word) => word.split(/[/=:,'"]/).includes('..');
  return !SHELL_SIGNS.some((sign) => command.includes(sign)) && exact(command) === command && !words(command).some(goesUp);
}
