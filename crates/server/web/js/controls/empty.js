// Before the first word: what answers here, how to try it, how to point something else at it.
import { button, byId, h, icon, show } from '../dom.js';
import { api } from '../net/api.js';
import { plural, tokens } from '../text/format.js';

const EXAMPLES = [
  'What is in this folder, and where would you start reading?',
  'Find out why the tests fail and fix it.',
  'Explain the largest source file to me.',
];

export async function showEmpty(place, { ask }) {
  place.hidden = false;
  const about = h('div.backends', { 'aria-live': 'polite' }, h('p.quiet', {}, 'Looking for models …'));
  show(
    place,
    h('h2', {}, 'What should the agent do?'),
    h('p.lead', {}, 'It keeps every word, shows the model what fits, and tells you what it left out. Nothing is ever lost.'),
    about,
    h('div.examples', {}, EXAMPLES.map((text) => h('button.example', { type: 'button', onclick: () => ask(text) }, text))),
    h(
      'details.pointing', {}, h('summary', {}, 'Use it from another program'),
      h('p', {}, 'Everything here goes over the same HTTP API. The token is in the file that the server named at its start.'),
      h('pre', { tabindex: '0' }, [
        `curl -H "Authorization: Bearer $(cat token)" -H 'content-type: application/json' \\`,
        `  -d '{"content":"hello"}' ${location.origin}/api/message`,
      ].join('\n')),
    ),
  );
  try {
    const models = await api.models();
    show(about, backends(models, ask));
    // The scripted model does one thing only.
    place.querySelector('.examples').hidden = models.demo;
  } catch (problem) {
    show(about, h('p.quiet', {}, problem.status === 404 ? 'This server does not say which models it found.' : problem.message));
  }
}

function backends({ current, backends: found = [], demo }, ask) {
  const name = current?.model ?? 'a model';
  const answers = demo
    ? h('p.answers', {}, icon('dot'), h('span', {}, 'No model was found, so the scripted ', h('strong', {}, 'demo model'), ' answers. It shows how a session outgrows its window.'))
    : h('p.answers.good', {}, icon('dot'), h('span', {}, h('strong', {}, name), ' answers', current?.provider ? ` · ${current.provider}` : '', current?.window ? ` · window ${tokens(current.window)}` : ''));
  const others = found.map((backend) => h('li', {}, h('strong', {}, backend.name), ` at ${backend.baseUrl} · ${plural(backend.models.length, 'model')}`, backend.models.length ? h('span.quiet', {}, ` · ${backend.models.slice(0, 4).join(', ')}${backend.models.length > 4 ? ' …' : ''}`) : null));
  return [
    answers,
    others.length ? h('div', {}, h('p.quiet', {}, 'Found on this machine:'), h('ul.found', {}, others)) : null,
    demo ? h('p', {}, button('Try the demo', { kind: 'primary', onclick: () => ask('Read the files of this folder one after the other and say what each is for.', true) })) : null,
    demo && !others.length ? h('p.quiet', {}, 'To use a model of your own, start LM Studio, llama.cpp, vLLM or Ollama, or set a key, and start again: ', h('code', {}, 'longhaul --base-url http://localhost:1234/v1 --model NAME serve')) : null,
  ];
}

export function hideEmpty() {
  byId('empty').hidden = true;
}
