// Settings: what the server lets a page change, and what only this page remembers.
import { byId, h, show } from '../dom.js';
import { api } from '../net/api.js';
import { currentTheme, setTheme } from './theme.js';

export const SAME = '__same__';

/** The choices of the pruning agent: the current agent first, then `name (model)`. Pure. */
export function pruningChoices(agents) {
  const others = agents.map((agent) => ({ value: agent.name ?? agent.id ?? agent.model, label: agent.model ? `${agent.name ?? agent.id} (${agent.model})` : agent.name ?? agent.id }));
  return [{ value: SAME, label: 'Same as current agent (default)' }, ...others];
}

export async function openSettings() {
  const dialog = byId('settings');
  const server = h('div', {}, h('p.quiet', {}, 'Asking the server …'));
  show(byId('settings-body'), appearance(), server);
  if (!dialog.open) dialog.showModal();
  try {
    const [settings, agents] = await Promise.all([api.settings(), api.agents().catch(() => ({ agents: [] }))]);
    show(server, ...serverSettings(settings, agents.agents ?? agents));
  } catch (problem) {
    const why = problem.status === 404 ? 'This server cannot be configured from the page.' : problem.message;
    show(server, h('h3', {}, 'How room is made'), h('p', {}, why), h('p.quiet', {}, 'The agent file longhaul.yml has every key: context.compression and context.pruningAgent.'));
  }
}

function appearance() {
  const choice = h('select', { id: 'theme-choice', onchange: (event) => setTheme(event.target.value) }, [['system', 'As the system'], ['light', 'Light'], ['dark', 'Dark']].map(([value, label]) => h('option', { value, selected: value === currentTheme() }, label)));
  return h('section', {}, h('h3', {}, 'Appearance'), field('theme-choice', 'Theme', choice));
}

function field(id, label, control, hint) {
  return h('div.field', {}, h('label', { for: id }, label), control, hint ? h('p.quiet', {}, hint) : null);
}

function serverSettings(settings, agents) {
  const said = h('p.form-said', { role: 'status' });
  const save = async (changes, control) => {
    control.disabled = true;
    try {
      const next = await api.changeSettings(changes);
      Object.assign(settings, next?.settings ?? next ?? {});
      said.textContent = 'Saved. It holds from the next step on.';
    } catch (problem) {
      said.textContent = problem.message;
    }
    control.disabled = false;
  };
  return [h('section', {}, h('h3', {}, 'How room is made'), ...controls(settings, agents, save), said)];
}

const STRATEGIES = ['adaptive', 'reactive-overflow', 'proactive-threshold', 'middle-removal', 'truncation', 'importance', 'summarization', 'pruning-agent'];

function controls(settings, agents, save) {
  const select = (id, key, label, choices, current, hint) => {
    const control = h('select', { id, onchange: (event) => save({ [key]: event.target.value }, event.target) }, choices.map(({ value, label: word }) => h('option', { value, selected: value === current }, word)));
    return field(id, label, control, hint);
  };
  const strategies = (settings.strategies ?? STRATEGIES).map((each) => (typeof each === 'string' ? { value: each, label: each } : { value: each.name, label: each.name }));
  const made = [
    select('pruning-agent', 'pruningAgent', 'Pruning agent', pruningChoices(agents), settings.pruningAgent ?? SAME, 'Who reads old messages and says which stay, where the strategy asks a model.'),
    select('strategy', 'strategy', 'Strategy', strategies, settings.strategy, 'How old messages make room. Nothing is deleted by any of them.'),
  ];
  const trigger = settings.trigger ?? settings.thresholds?.trigger;
  const share = typeof trigger === 'number' ? trigger : trigger?.percentage;
  const number = h('input', { id: 'trigger', type: 'number', min: '5', max: '100', step: '1', value: share ? Math.round(share <= 1 ? share * 100 : share) : '', placeholder: 'as the strategy has it', onchange: (event) => save({ trigger: event.target.value ? { type: 'threshold', percentage: Number(event.target.value) / 100 } : null }, event.target) });
  made.push(field('trigger', 'Trigger, in percent of the window', number, 'Where room is made. Empty: the strategy decides.'));
  return made;
}
