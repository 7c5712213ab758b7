// The messages that wait, as numbered chips above the field.
import { button, byId, h, icon, setText } from '../dom.js';
import { firstLine } from '../text/format.js';
import { entryText } from '../state/queue.js';

export class Queue {
  /** `edit(entry)`, `remove(id)`, `goOn()` */
  constructor(actions) {
    this.actions = actions;
    this.list = byId('queue');
    this.chips = new Map();
    this.heldWords = h('span');
    this.held = h('li.held', {}, icon('clock'), this.heldWords, button('Send now', { symbol: 'send', onclick: () => this.actions.goOn() }));
  }

  /** `isHeld`: nothing takes them by itself. */
  update(entries, isHeld) {
    if (entries === this.entries && isHeld === this.isHeld) return;
    Object.assign(this, { entries, isHeld });
    const known = entries.filter((entry) => entry.parts);
    const ids = new Set(known.map((entry) => entry.id));
    for (const [id, chip] of this.chips) {
      if (ids.has(id)) continue;
      this.chips.delete(id);
      leave(chip.element);
    }
    known.forEach((entry, at) => {
      const chip = this.chips.get(entry.id) ?? this.make(entry);
      setText(chip.number, String(at + 1));
      setText(chip.text, firstLine(entryText(entry), 80) || 'A file');
      chip.edit.setAttribute('aria-label', `Edit the waiting message ${at + 1}: ${firstLine(entryText(entry), 80)}`);
      chip.remove.setAttribute('aria-label', `Remove the waiting message ${at + 1}`);
    });
    this.hold(isHeld && known.length);
    this.list.hidden = known.length === 0 && this.list.childElementCount === 0;
  }

  /** Says that they wait for a person, with what sends them. */
  hold(number) {
    this.list.classList.toggle('is-held', number > 0);
    if (!number) {
      this.held.remove();
      return;
    }
    setText(this.heldWords, number === 1 ? 'It waits for your next message, or' : 'They wait for your next message, or');
    if (this.list.lastElementChild !== this.held) this.list.append(this.held);
  }

  make(entry) {
    const chip = { number: h('span.chip-number.numbers'), text: h('span.chip-text') };
    chip.edit = h('button.chip-edit', { type: 'button', title: 'Edit', onclick: () => this.actions.edit(this.entries.find((each) => each.id === entry.id)) }, chip.number, chip.text);
    chip.remove = button('Remove', { symbol: 'close', onlyIcon: true, onclick: () => this.actions.remove(entry.id) });
    chip.element = h('li.chip.arrives', {}, chip.edit, chip.remove);
    this.chips.set(entry.id, chip);
    this.list.append(chip.element);
    this.list.hidden = false;
    return chip;
  }
}

/** Up and away, into the conversation; at once for those who want no motion. */
function leave(element) {
  const list = element.parentNode;
  const gone = () => {
    element.remove();
    list.hidden = list.childElementCount === 0;
  };
  if (matchMedia('(prefers-reduced-motion: reduce)').matches || document.hidden) {
    gone();
    return;
  }
  element.classList.add('leaves');
  setTimeout(gone, 150);
}
