// What the model thought: folded, with its length.
import { h, setText } from '../dom.js';
import { duration, plural, words } from '../text/format.js';

export class Reasoning {
  constructor() {
    this.label = h('summary');
    this.text = h('div.reasoning-text');
    this.element = h('details.reasoning', { hidden: true, ontoggle: () => this.fill() }, this.label, this.text);
  }

  update(message, live) {
    this.message = message;
    this.element.hidden = !message.reasoning;
    if (!message.reasoning) return;
    const thinks = live && !message.text;
    const length = plural(words(message.reasoning), 'word');
    setText(this.label, thinks ? `Thinking … ${length}` : `Thought${message.thoughtFor >= 1_000 ? ` for ${duration(message.thoughtFor)}` : ''} · ${length}`);
    this.fill();
  }

  fill() {
    if (this.element.open) setText(this.text, this.message.reasoning);
  }
}
