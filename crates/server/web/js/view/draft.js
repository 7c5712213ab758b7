// The open end of an answer: its lines in their form, each made of text alone. A line that stands is not touched again.
import { h } from '../dom.js';
import { draftLines, draftWords } from '../text/draft.js';

export class Draft {
  constructor() {
    this.caret = h('span.caret', { 'aria-hidden': 'true' });
    this.element = h('div.draft');
    this.lines = [];
    this.code = null;
  }

  /** `code`: what is in the fence that the text begins with. It may be long, so what comes is put behind it. */
  update(text, code = null) {
    if (code === null) this.setLines(draftLines(text));
    else this.setCode(code);
  }

  setLines(lines) {
    this.code?.remove();
    this.code = null;
    lines.forEach((line, at) => this.setLine(at, line));
    this.lines.splice(lines.length).forEach(({ element }) => element.remove());
    const last = this.lines.at(-1)?.end ?? this.element;
    if (last.lastChild !== this.caret) last.append(this.caret);
  }

  setCode(code) {
    this.lines.splice(0).forEach(({ element }) => element.remove());
    this.code ??= document.createTextNode('');
    if (code.startsWith(this.code.data)) this.code.appendData(code.slice(this.code.data.length));
    else this.code.data = code;
    if (!this.code.parentNode) this.element.append(this.code, this.caret);
  }

  setLine(at, line) {
    const key = JSON.stringify(line);
    const known = this.lines[at];
    if (known?.key === key) return;
    const [element, end] = lineView(line);
    if (known) known.element.replaceWith(element);
    else this.element.append(element);
    this.lines[at] = { key, element, end };
  }
}

/** A line, and where what comes next of it goes. */
function lineView({ kind, depth, mark, text }) {
  const line = h(`div.draft-${kind}`, depth === undefined ? {} : { 'data-depth': depth });
  if (kind === 'item') {
    const said = h('span', {}, words(text));
    line.append(h('span.draft-mark', {}, `${mark} `), said);
    return [line, said];
  }
  line.append(...(kind === 'code' ? [text] : words(text)));
  return [line, line];
}

function words(text) {
  return draftWords(text).map(({ kind, text: said }) => (kind === 'text' ? said : h(kind, {}, said)));
}
