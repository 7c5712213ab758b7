// Who answers: the model in the line above the conversation, and the list of those that may take its place.
import { byId, h, icon, show } from '../dom.js';
import { api } from '../net/api.js';
import { modelChoices, modelsOf } from '../text/models.js';

export class ModelMenu {
  /** `current()` gives `{current, agent, note}`: the model, whose it is, and what a choice means; `choose(choice, model)` answers a promise. */
  constructor({ current, choose }) {
    Object.assign(this, { current, choose });
    this.menu = byId('model-menu');
    this.menu.addEventListener('toggle', (event) => { if (event.newState === 'open') this.fill(); });
    this.menu.addEventListener('keydown', (event) => this.key(event));
  }

  open() {
    this.menu.showPopover();
  }

  async fill() {
    show(this.menu, h('p.menu-note', { role: 'status' }, 'Asking which models are here …'));
    // One of the two is enough to choose from.
    const [agents, settings] = await Promise.allSettled([api.agents(), api.settings()]);
    if (agents.status === 'rejected' && settings.status === 'rejected') {
      show(this.menu, h('p.menu-note', { role: 'alert' }, agents.reason.message));
      return;
    }
    const known = agents.value?.agents ?? [];
    const { current, agent, note } = this.current();
    const usual = known.find((each) => each.isDefault);
    const groups = modelChoices({ agents: known, models: modelsOf(settings.value), current: current ?? usual?.model, agent: agent ?? usual?.name });
    this.said = h('p.menu-note.form-said', { role: 'alert' });
    show(
      this.menu,
      groups.map(({ title, choices }) => h('div', { role: 'group', 'aria-label': title }, h('p.menu-title', { 'aria-hidden': 'true' }, title), choices.map((choice) => this.item(choice)))),
      this.said,
      h('p.menu-note', {}, note),
    );
    (this.menu.querySelector('[aria-checked="true"]') ?? this.menu.querySelector('button'))?.focus();
  }

  item({ label, note, model, choice, isCurrent, why }) {
    return h(
      'button.choice-item', {
        type: 'button', role: 'menuitemradio', 'aria-checked': String(isCurrent), disabled: Boolean(why), title: why ?? null,
        onclick: () => this.chosen(choice, model, isCurrent),
      },
      isCurrent ? icon('check') : h('span.icon'), h('span.choice-label', {}, label), note ? h('span.choice-note', {}, note) : null,
    );
  }

  async chosen(choice, model, isCurrent) {
    if (isCurrent) {
      this.menu.hidePopover();
      return;
    }
    this.menu.setAttribute('aria-busy', 'true');
    this.said.textContent = '';
    try {
      await this.choose(choice, model);
      this.menu.hidePopover();
    } catch (problem) {
      this.said.textContent = problem.message;
    } finally {
      this.menu.removeAttribute('aria-busy');
    }
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const items = [...this.menu.querySelectorAll('button:not(:disabled)')];
    items.at((items.indexOf(document.activeElement) + step) % items.length)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
