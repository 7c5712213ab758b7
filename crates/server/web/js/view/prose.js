// Text of the model, as it grows: closed blocks rendered, the open rest as it comes. A block that stands is not
// touched again.
import { h } from '../dom.js';
import { splitBlocks } from '../text/blocks.js';
import { render, rendered } from '../text/render.js';
import { setServerHtml } from '../text/trusted.js';

export class Prose {
  constructor() {
    this.blocks = [];
    this.tailText = document.createTextNode('');
    this.caret = h('span.caret', { 'aria-hidden': 'true' });
    this.tail = h('div.block.plain.tail', {}, this.tailText, this.caret);
    this.element = h('div.prose');
    this.text = null;
    this.isLive = null;
  }

  update(text, isLive) {
    if (text === this.text && isLive === this.isLive) return;
    this.text = text;
    this.isLive = isLive;
    const { closed, tail } = splitBlocks(text, isLive);
    closed.forEach((block, at) => {
      if (this.blocks[at]?.text !== block) this.setBlock(at, block);
    });
    this.blocks.splice(closed.length).forEach((block) => block.element.remove());
    this.setTail(tail, isLive);
  }

  setBlock(at, text) {
    const html = rendered(text);
    const element = h('div.block');
    const block = { text, element };
    if (html === undefined) {
      element.classList.add('plain');
      element.textContent = text;
      render(text).then((late) => {
        if (late !== undefined && this.blocks[at] === block) this.mark(element, late);
      });
    } else {
      this.mark(element, html);
    }
    const old = this.blocks[at]?.element;
    if (old) old.replaceWith(element);
    else if (this.tail.isConnected || this.tail.parentNode) this.element.insertBefore(element, this.tail);
    else this.element.append(element);
    this.blocks[at] = block;
  }

  mark(element, html) {
    setServerHtml(element, html);
    element.classList.remove('plain');
    for (const link of element.querySelectorAll('a[href]')) {
      link.target = '_blank';
      link.rel = 'noopener noreferrer';
    }
    for (const code of element.querySelectorAll('pre')) addCopy(code);
  }

  setTail(tail, isLive) {
    if (!isLive) {
      this.tail.remove();
      return;
    }
    const known = this.tailText.data;
    if (tail.startsWith(known)) this.tailText.appendData(tail.slice(known.length));
    else this.tailText.data = tail;
    if (!this.tail.parentNode) this.element.append(this.tail);
  }
}

/** Code can be copied: the button is outside of what is scrolled, and of what is selected. */
function addCopy(pre) {
  pre.tabIndex = 0;
  const copy = h('button.copy', { type: 'button' }, 'Copy');
  copy.addEventListener('click', async () => {
    await navigator.clipboard?.writeText(pre.textContent);
    copy.textContent = 'Copied';
    setTimeout(() => { copy.textContent = 'Copy'; }, 1_500);
  });
  const frame = h('div.code-frame');
  pre.replaceWith(frame);
  frame.append(pre, copy);
}
