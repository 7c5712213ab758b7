// The AI SDK's pruneMessages over a file of neutral messages: one JSON line.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [path, repetitions, modules] = process.argv.slice(2);
const found = createRequire(`${modules}/package.json`).resolve('ai');
const { pruneMessages } = await import(pathToFileURL(found).href);
const data = JSON.parse(readFileSync(path, 'utf8'));

function message(said) {
  if (said.role === 'user') return { role: 'user', content: said.text };
  if (said.role === 'assistant') {
    const text = said.text ? [{ type: 'text', text: said.text }] : [];
    const calls = said.calls.map((call) => ({ type: 'tool-call', toolCallId: call.id, toolName: call.tool, input: call.arguments }));
    return { role: 'assistant', content: [...text, ...calls] };
  }
  const output = { type: 'text', value: said.text };
  return { role: 'tool', content: [{ type: 'tool-result', toolCallId: said.answers.id, toolName: said.answers.tool, output }] };
}

function kept({ role, content }) {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  const of = (type) => parts.filter((part) => part.type === type);
  const texts = [...of('text').map((part) => part.text), ...of('tool-result').map((part) => part.output.value)];
  const calls = of('tool-call').map((part) => part.toolCallId);
  const answers = of('tool-result').map((part) => part.toolCallId);
  const input = of('tool-call').map((part) => JSON.stringify(part.input)).join('');
  return { role, text: texts.join(''), calls, answers, input };
}

const messages = data.messages.map(message);
const call = () => {
  const start = performance.now();
  const result = pruneMessages({ messages, reasoning: 'none', toolCalls: 'before-last-20-messages', emptyMessages: 'remove' });
  return [performance.now() - start, result];
};
const [, result] = call();
const ms = Array.from({ length: Number(repetitions) }, () => call()[0]);
const shown = result.map(kept);
const used = Math.ceil(shown.reduce((sum, { text, input }) => sum + text.length + input.length, 0) / 4);
console.log(JSON.stringify({ library: 'AI SDK pruneMessages, last 20', ms, used, unbounded: true, kept: shown }));
