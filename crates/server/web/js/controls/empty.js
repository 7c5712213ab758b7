// Before the first word: who answers here, how to try it, how to point something else at it.
import { byId, button, coded, h, icon, show } from '../dom.js';
import { api, ROOT } from '../net/api.js';
import { page } from '../page.js';
import { plural, tokens } from '../text/format.js';
import { modelChoices, modelsOf } from '../text/models.js';
import { ways } from '../text/ways.js';
import { snippet } from '../view/copy.js';

const EXAMPLES = [
  'What is in this folder, and where would you start reading?',
  'Find out why the tests fail and fix it.',
  'Explain the largest source file to me.',
];

const DEMO = 'Read the files of this folder one after the other and say what each is for.';

/** Draws anew who answers, while the page stands here. */
let redraw = () => {};

/** Somebody else shall answer. */
export function whoChanged() {
  redraw();
}

/** `ask(text, isSent)` writes, `pickModel()` offers who may answer, `known()` hears who does. */
export async function showEmpty(place, { ask, pickModel, known }) {
  place.hidden = false;
  const about = h('div.backends', { 'aria-live': 'polite' }, h('p.quiet', {}, 'Looking for models …'));
  const examples = h('div.examples', {}, EXAMPLES.map((text) => h('button.example', { type: 'button', onclick: () => ask(text) }, text)));
  show(
    place,
    h('h2', {}, 'What should the agent do?'),
    h('p.lead', {}, 'Longhaul keeps every message, shows the model what fits, and tells you what it left out. Nothing is lost.'),
    about, examples, pointing(),
  );
  await look(about, examples, { ask, pickModel, known });
}

async function look(about, examples, actions) {
  try {
    const [models, isOne] = await Promise.all([api.models(), isAlone()]);
    page.usual = { model: models.current?.model ?? null };
    redraw = () => show(about, backends(models, isOne ? null : actions.pickModel, actions.ask));
    redraw();
    actions.known();
    // The scripted model does one thing only.
    examples.hidden = models.demo;
  } catch (problem) {
    show(
      about,
      h('p.answers.bad', {}, icon('alert'), h('span', {}, problem.status === 404 ? 'This server does not report which models it found.' : problem.message)),
      problem.status === 404 ? null : h('p', {}, button('Look again', { kind: 'quiet', onclick: () => look(about, examples, actions) })),
    );
  }
}

/** Whether there is nobody else to choose. */
async function isAlone() {
  const [agents, settings] = await Promise.allSettled([api.agents(), api.settings()]);
  const groups = modelChoices({ agents: agents.value?.agents, models: modelsOf(settings.value) });
  return groups.every(({ choices }) => choices.length < 2);
}

function pointing() {
  return h('section.pointing', { 'aria-label': 'From another program' }, h('h3', {}, 'From another program'), ways(location.origin + ROOT).map(({ title, says, text }) => h(
    'details', { name: 'pointing' }, h('summary', {}, title), h('p', {}, coded(says)), snippet(text),
  )));
}

function backends({ current, backends: found = [], demo }, pickModel, ask) {
  return [
    demo && !page.chosen ? demoLine() : answerLine(current),
    pickModel ? h('p.answers-other', {}, button('Choose who answers', { kind: 'link', onclick: pickModel })) : null,
    demo ? h('p', {}, button('Try the demo', { kind: 'primary', onclick: () => ask(DEMO, true) })) : null,
    found.length ? h('div', {}, h('h3', {}, 'Found on this machine'), h('ul.found', {}, found.map(backendLine))) : null,
    demo && !found.length ? h('div', {}, h('p.quiet', {}, 'For a model of your own, start LM Studio, llama.cpp, vLLM or Ollama, or set a key, and start again:'), snippet('longhaul --base-url http://localhost:1234/v1 --model NAME serve')) : null,
  ];
}

function demoLine() {
  return h('p.answers', {}, icon('dot'), h('span', {}, 'No model was found, so the scripted ', h('strong', {}, 'demo model'), ' answers. It shows how a session outgrows its window.'));
}

function answerLine(current) {
  const { chosen } = page;
  const facts = chosen ? [chosen.agent && `agent ${chosen.agent}`] : [current?.provider, current?.window ? `window ${tokens(current.window)}` : 'window not stated'];
  return h('p.answers.good', {}, icon('dot'), h('span', {}, h('strong', {}, chosen?.shown ?? current?.model ?? 'a model'), ' answers'), h('span.quiet.numbers', {}, facts.filter(Boolean).join(' · ')));
}

function backendLine({ name, baseUrl, models }) {
  const named = models.slice(0, 4).join(', ');
  return h('li', {}, h('strong', {}, name), h('span.mono', {}, baseUrl), h('span.quiet', {}, models.length > 4 ? `${plural(models.length, 'model')}: ${named} …` : named || 'no model is loaded'));
}

export function hideEmpty() {
  byId('empty').hidden = true;
}
