// Who may answer in a session: agents and models, as the server lists them. Pure.

/**
 * Groups of choices: `{title, choices: [{label, note?, choice, isCurrent, why?}]}`, where `choice` is what the server
 * is sent. A group with nothing to choose is left out.
 *
 * @param {{agents: Object[], models: string[], current: string|null, agent: string|null}} known `current` is the model
 *   that answers now, `agent` whose it is
 */
export function modelChoices({ agents = [], models = [], current = null, agent = null }) {
  const several = agents.length > 1;
  const named = several ? agents.map(({ name, model, usable, why }) => ({
    label: name, note: usable === false ? why ?? 'cannot be used' : model, choice: { agent: name }, isCurrent: name === agent && model === current,
    ...(usable === false ? { why: why ?? 'It cannot be used.' } : {}),
  })) : [];
  const all = [...new Set([...(current ? [current] : []), ...agents.filter(({ usable }) => usable !== false).map(({ model }) => model), ...models])];
  const plain = all.filter(Boolean).map((model) => ({ label: model, choice: { model }, isCurrent: model === current }));
  return [{ title: 'Agents', choices: named }, { title: 'Models', choices: plain }].filter((group) => group.choices.length);
}

/** The models that a session may have, out of the settings: those who may write summaries, by name. */
export function modelsOf(settings) {
  return (settings?.allowed?.summarizeWith ?? []).filter(({ value, label }) => value === label).map(({ value }) => value);
}
