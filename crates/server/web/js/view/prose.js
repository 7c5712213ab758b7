// Text of the model, as it grows: closed blocks rendered by the server, the open rest and what is not rendered yet as
// drafts. A block that stands is not touched again.
import { h, icon } from '../dom.js';
import { fenced, splitBlocks } from '../text/blocks.js';
import { render, rendered } from '../text/render.js';
import { setServerHtml } from '../text/trusted.js';
import { framed } from './copy.js';
import { Draft } from './draft.js';

export class Prose {
  constructor() {
    this.blocks = [];
    this.draft = new Draft();
    this.tail = h('div.block.tail', {}, this.draft.element);
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
      const code = fenced(text, false);
      element.append(code === null ? drafted(text) : h('div.code-frame', {}, h('pre', {}, code)));
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
    element.querySelectorAll('a.blocked-image').forEach(offerImage);
    for (const code of element.querySelectorAll('pre')) addCopy(code);
  }

  setTail(tail, isLive) {
    if (!isLive) {
      this.tail.remove();
      return;
    }
    const code = fenced(tail, true);
    this.tail.classList.toggle('fenced', code !== null);
    this.draft.update(tail, code);
    if (!this.tail.parentNode) this.element.append(this.tail);
  }
}

/** A closed block until the server has rendered it. */
function drafted(text) {
  const draft = new Draft();
  draft.update(text);
  draft.caret.remove();
  return draft.element;
}

/** A picture from elsewhere is not loaded; who asks for it gets it in a window of its own, which is told nothing. */
function offerImage(mark) {
  const address = mark.dataset.src ?? '';
  if (!/^https?:\/\//.test(address)) return;
  mark.href = address;
  mark.target = '_blank';
  mark.rel = 'noopener noreferrer';
  mark.title = `Not loaded, so that ${new URL(address).host} learns nothing. Opens in a new window.`;
  mark.prepend(icon('file'));
  mark.append(h('span.quiet', {}, ` · picture at ${new URL(address).host}, not loaded · open`));
}

/** Code can be copied. */
function addCopy(pre) {
  const place = document.createComment('');
  pre.replaceWith(place);
  place.replaceWith(framed(pre));
}
