// Settings: what the server lets a page change, and what only this page remembers.
import { button, byId, coded, h, icon, show } from '../dom.js';
import { api } from '../net/api.js';
import { currentTheme, setTheme } from './theme.js';

/** Choices as the server gives them; what is set is always among them. Pure. */
export function choicesOf(allowed, current) {
  const choices = allowed.map((choice) => (typeof choice === 'string' ? { value: choice, label: choice } : choice));
  return choices.some(({ value }) => value === current) ? choices : [...choices, { value: current, label: current }];
}

/** What each strategy does, in a line. */
export const STRATEGIES = {
  'reactive-overflow': 'Waits until the window is full, then one summary takes the place of all but the newest turns.',
  'proactive-threshold': 'The same at half of the window, for models that get worse or slower when it fills.',
  'middle-removal': 'Keeps the first turn and the newest messages and leaves out the middle. No model is asked.',
  truncation: 'Keeps the newest messages only. No model is asked.',
  importance: 'Scores every older message and leaves out the lowest first. No model is asked.',
  summarization: 'A short summary for each batch of old messages, for long talks on one subject after another.',
  'pruning-agent': 'A model reads the old messages and decides which stay, become shorter or go. The most selective, and the dearest.',
  adaptive: 'Compacts when it pays: a program pins rules, files and errors, and a model writes a short summary ahead.',
};

/** Kinds of trigger; `unit` where a figure belongs to it. */
const TRIGGERS = [
  { value: 'none', label: 'When the strategy says (default)' },
  { value: 'percentage', label: 'At a share of the window', unit: 'percent' },
  { value: 'triggerTokens', label: 'At a number of tokens', unit: 'tokens' },
  { value: 'overflow', label: 'Only when the window is full' },
  { value: 'planner', label: 'When it pays (adaptive only)' },
  { value: 'manual', label: 'Only when you ask, or nothing fits' },
];

/** A trigger of the API as kind and figure. Pure. */
export function readTrigger(trigger) {
  if (!trigger) return { kind: 'none', figure: '' };
  if (typeof trigger.percentage === 'number') return { kind: 'percentage', figure: Math.round(trigger.percentage * 1_000) / 10 };
  if (typeof trigger.triggerTokens === 'number') return { kind: 'triggerTokens', figure: trigger.triggerTokens };
  return { kind: trigger.type, figure: '' };
}

/** The same back; `undefined` while the figure is missing. Pure. */
export function writeTrigger(kind, figure) {
  const number = Number(figure);
  switch (kind) {
    case 'none': return null;
    case 'percentage': return number > 0 && number <= 100 ? { percentage: number / 100 } : undefined;
    case 'triggerTokens': return number >= 1 ? { triggerTokens: Math.round(number) } : undefined;
    default: return { type: kind };
  }
}

export async function openSettings() {
  const dialog = byId('settings');
  const server = h('section', {}, h('p.quiet', {}, 'Asking the server …'));
  show(byId('settings-body'), appearance(), server);
  if (!dialog.open) dialog.showModal();
  try {
    const settings = await api.settings();
    new ServerSettings(server).draw(settings);
  } catch (problem) {
    const why = problem.status === 404 ? 'This server cannot be configured from the page.' : problem.message;
    show(server, h('h3', {}, 'Compaction'), h('p', {}, why), h('p.quiet', {}, 'The agent file longhaul.yml has every key: context.compression and context.pruningAgent.'));
  }
}

function appearance() {
  const options = [['system', 'As the system'], ['light', 'Light'], ['dark', 'Dark']];
  const choice = h(
    'select', { id: 'theme-choice', onchange: (event) => setTheme(event.target.value) },
    options.map(([value, label]) => h('option', { value, selected: value === currentTheme() }, label)),
  );
  return h('section', {}, h('h3', {}, 'Appearance'), field('theme-choice', 'Theme', choice));
}

function field(id, label, control, hint) {
  return h('div.field', {}, h('label', { for: id }, label), control, hint ? h('p.quiet', {}, coded(hint)) : null);
}

/** All strategies beside each other, for who chooses. */
function strategies(names) {
  const known = names.filter((name) => STRATEGIES[name]);
  return h('details.strategies', {}, h('summary', {}, 'What each strategy does'), h('dl', {}, known.map((name) => [h('dt', {}, name), h('dd', {}, STRATEGIES[name])])));
}

/** The settings of the server: each is saved when it is changed, and may be given back to the agent file. */
class ServerSettings {
  constructor(place) {
    this.place = place;
    this.said = h('p.form-said', { role: 'status' });
  }

  draw(settings) {
    this.settings = settings;
    const focus = document.activeElement?.id;
    const { strategy, pruningAgent, summarizeWith, autoRecall, allowed } = settings;
    show(
      this.place, h('h3', {}, 'Compaction'), h('p.quiet.intro', {}, 'What happens when the window fills. Nothing is deleted: everything stays in the log and can be looked up. What you change is saved at once.'),
      this.select('strategy', 'Strategy', allowed.strategy, strategy, STRATEGIES[strategy]),
      strategies(allowed.strategy),
      this.trigger(),
      this.select('pruningAgent', 'Pruning agent', allowed.pruningAgent, pruningAgent, 'The model that reads old messages and chooses which stay, with the strategy `pruning-agent`.'),
      this.select('summarizeWith', 'Who writes summaries', allowed.summarizeWith, summarizeWith, 'With every strategy that summarises.'),
      this.check('autoRecall', 'Bring back passages that the newest message refers to', autoRecall),
    );
    if (focus) byId(focus)?.focus();
  }

  select(key, label, allowed, current, hint) {
    const control = h(
      'select', { id: key, onchange: (event) => this.save({ [key]: event.target.value }) },
      choicesOf(allowed, current).map(({ value, label: word }) => h('option', { value, selected: value === current }, word)),
    );
    return this.withSource(key, field(key, label, control, hint));
  }

  check(key, label, current) {
    const control = h('input', { type: 'checkbox', id: key, checked: current, onchange: (event) => this.save({ [key]: event.target.checked }) });
    return this.withSource(key, h('div.field.check', {}, control, h('label', { for: key }, label)));
  }

  trigger() {
    const { kind, figure } = readTrigger(this.settings.trigger);
    const number = h('input', { id: 'figure', type: 'number', min: '1', step: 'any', value: figure, 'aria-label': 'Value of the trigger' });
    const choice = h('select', { id: 'trigger' }, TRIGGERS.filter(({ value }) => value === kind || this.settings.allowed.trigger.includes(value)).map(({ value, label }) => h('option', { value, selected: value === kind }, label)));
    const unit = h('span.quiet');
    const changed = () => {
      const trigger = TRIGGERS.find(({ value }) => value === choice.value);
      number.hidden = !trigger.unit;
      unit.textContent = trigger.unit ?? '';
    };
    const save = () => {
      changed();
      const written = writeTrigger(choice.value, number.value);
      if (written !== undefined) this.save({ trigger: written });
      else if (document.activeElement !== number) number.focus();
    };
    choice.addEventListener('change', save);
    number.addEventListener('change', save);
    changed();
    const both = h('div.figure', {}, choice, number, unit);
    return this.withSource('trigger', field('trigger', 'Compact', both, 'A request that would not fit at all is always compacted first.'));
  }

  /** A value that was changed here can be given back; what came of the last change is said below it. */
  withSource(key, element) {
    element.dataset.key = key;
    if (this.settings.sources?.[key] === 'settings') {
      element.append(h('p.source.quiet', {}, 'Changed here. ', button('As in the agent file', { kind: 'link', onclick: () => this.save({ [key]: null }) })));
    }
    if (this.changed === key) element.append(this.said);
    return element;
  }

  async save(change) {
    this.said.setAttribute('role', 'status');
    [this.changed] = Object.keys(change);
    try {
      const settings = await api.changeSettings(change);
      this.draw(settings);
      this.said.replaceChildren(icon('check'), 'Saved. Every session uses it from its next decision.');
    } catch (problem) {
      this.said.setAttribute('role', 'alert');
      this.said.textContent = problem.message;
      this.place.querySelector(`[data-key="${this.changed}"]`)?.append(this.said);
    }
  }
}
