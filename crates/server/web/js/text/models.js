// Who may answer in a session: agents and models, as the server lists them. Pure.
import { firstLine } from './format.js';

/**
 * Groups of choices: `{title, choices: [{label, note?, model, choice, isCurrent, why?}]}`, where `choice` is what the
 * server is sent and `model` who answers then. A group with nothing to choose is left out.
 *
 * @param {{agents: Object[], models: string[], current: string|null, agent: string|null}} known `current` is the model
 *   that answers now, `agent` whose it is
 */
export function modelChoices({ agents = [], models = [], current = null, agent = null }) {
  const several = agents.length > 1;
  const named = several ? agents.map(({ name, model, usable, why }) => ({
    label: name, note: usable === false ? firstLine(why, 80) || 'cannot be used' : model, model, choice: { agent: name }, isCurrent: name === agent && model === current,
    ...(usable === false ? { why: why ?? 'It cannot be used.' } : {}),
  })) : [];
  const all = [...new Set([...(current ? [current] : []), ...agents.filter(({ usable }) => usable !== false).map(({ model }) => model), ...models])];
  const plain = all.filter(Boolean).map((model) => ({ label: model, model, choice: { model }, isCurrent: model === current }));
  return [{ title: 'Agents', choices: named }, { title: 'Models', choices: plain }].filter((group) => group.choices.length);
}

/** A refusal names what was asked for, not the field of the request. */
export function refusedModel(message, model) {
  return model ? message.replace(/^`model`/, () => `“${firstLine(model, 80)}”`) : message;
}

/** The models that a session may have, out of the settings: those who may write summaries, by name. */
export function modelsOf(settings) {
  return (settings?.allowed?.summarizeWith ?? []).filter(({ value, label }) => value === label).map(({ value }) => value);
}
