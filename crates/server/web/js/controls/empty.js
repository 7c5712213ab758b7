// Before the first word: what answers here, how to try it, how to point something else at it.
import { byId, button, h, icon, show } from '../dom.js';
import { api } from '../net/api.js';
import { plural, tokens } from '../text/format.js';

const EXAMPLES = [
  'What is in this folder, and where would you start reading?',
  'Find out why the tests fail and fix it.',
  'Explain the largest source file to me.',
];

const DEMO = 'Read the files of this folder one after the other and say what each is for.';

/** Ways in for other programs: `[title, what for, what to paste]`. */
function ways() {
  return [
    ['A script', 'Everything here goes over one HTTP API. The token is in the file that the server named at its start.', [
      `curl ${location.origin}/api/message \\`,
      `  -H "Authorization: Bearer $(cat token)" -H 'content-type: application/json' \\`,
      `  -d '{"content":"hello"}'`,
    ].join('\n')],
    ['An editor', 'Editors that speak the Agent Client Protocol start it by themselves; this is for Zed.', '{ "agent_servers": { "Longhaul": { "type": "custom", "command": "longhaul", "args": ["acp"] } } }'],
    ['Another agent', 'Over MCP any agent can look up what was said in your sessions.', '{ "mcpServers": { "longhaul": { "command": "longhaul", "args": ["mcp"] } } }'],
  ];
}

export async function showEmpty(place, { ask }) {
  place.hidden = false;
  const about = h('div.backends', { 'aria-live': 'polite' }, h('p.quiet', {}, 'Looking for models …'));
  const examples = h('div.examples', {}, EXAMPLES.map((text) => h('button.example', { type: 'button', onclick: () => ask(text) }, text)));
  show(
    place,
    h('h2', {}, 'What should the agent do?'),
    h('p.lead', {}, 'It keeps every word, shows the model what fits, and tells you what it left out. Nothing is ever lost.'),
    about, examples, pointing(),
  );
  await look(about, examples, ask);
}

async function look(about, examples, ask) {
  try {
    const models = await api.models();
    show(about, backends(models, ask));
    // The scripted model does one thing only.
    examples.hidden = models.demo;
  } catch (problem) {
    show(
      about,
      h('p.answers.bad', {}, icon('alert'), h('span', {}, problem.status === 404 ? 'This server does not say which models it found.' : problem.message)),
      problem.status === 404 ? null : h('p', {}, button('Look again', { kind: 'quiet', onclick: () => look(about, examples, ask) })),
    );
  }
}

function pointing() {
  return h('section.pointing', { 'aria-label': 'From another program' }, h('h3', {}, 'From another program'), ways().map(([title, says, text]) => h(
    'details', { name: 'pointing' }, h('summary', {}, title), h('p', {}, says), copied(text),
  )));
}

/** A text with a button that copies it. */
function copied(text) {
  const copy = h('button.copy', { type: 'button', onclick: async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = 'Copied';
    setTimeout(() => { copy.textContent = 'Copy'; }, 1_500);
  } }, 'Copy');
  return h('div.code-frame', {}, h('pre', { tabindex: '0' }, text), copy);
}

function backends({ current, backends: found = [], demo }, ask) {
  const answers = demo
    ? h('p.answers', {}, icon('dot'), h('span', {}, 'No model was found, so the scripted ', h('strong', {}, 'demo model'), ' answers. It shows how a session outgrows its window.'))
    : h('p.answers.good', {}, icon('dot'), h('span', {}, h('strong', {}, current?.model ?? 'a model'), ' answers'), h('span.quiet.numbers', {}, [current?.provider, current?.window && `window ${tokens(current.window)}`].filter(Boolean).join(' · ')));
  return [
    answers,
    demo ? h('p', {}, button('Try the demo', { kind: 'primary', onclick: () => ask(DEMO, true) })) : null,
    found.length ? h('div', {}, h('h3', {}, 'Found on this machine'), h('ul.found', {}, found.map(backendLine))) : null,
    demo && !found.length ? h('div', {}, h('p.quiet', {}, 'For a model of your own, start LM Studio, llama.cpp, vLLM or Ollama, or set a key, and start again:'), copied('longhaul --base-url http://localhost:1234/v1 --model NAME serve')) : null,
  ];
}

function backendLine({ name, baseUrl, models }) {
  const named = models.slice(0, 4).join(', ');
  return h('li', {}, h('strong', {}, name), h('span.mono', {}, baseUrl), h('span.quiet', {}, models.length > 4 ? `${plural(models.length, 'model')}: ${named} …` : named || 'no model is loaded'));
}

export function hideEmpty() {
  byId('empty').hidden = true;
}
