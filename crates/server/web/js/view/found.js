// What was searched for, where it was found: the message is pointed at for a moment, its words are marked.
import { placesOf } from '../text/hits.js';

const POINTED_MS = 2_400;
/** Words marked at most; more help nobody. */
const MOST = 300;
const NAME = 'found';

/** Has a row stand out for a moment, and the focus. */
export function point(element) {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.classList.add('pointed');
  setTimeout(() => element.classList.remove('pointed'), POINTED_MS);
}

/** Marks words in what is in the document of a place. The text itself is not touched. */
export class Marks {
  constructor(place) {
    this.place = place;
    this.words = [];
    this.changes = new MutationObserver(() => this.schedule());
  }

  show(words) {
    if (!globalThis.CSS?.highlights) return;
    this.words = words;
    if (words.length) this.changes.observe(this.place, { childList: true, subtree: true });
    else this.changes.disconnect();
    this.draw();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const ranges = this.words.length ? rangesOf(this.place, this.words) : [];
    if (ranges.length) CSS.highlights.set(NAME, new Highlight(...ranges));
    else CSS.highlights.delete(NAME);
  }
}

function rangesOf(place, words) {
  const ranges = [];
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < MOST; node = walker.nextNode()) {
    for (const [from, to] of placesOf(node.data, words)) {
      const range = new Range();
      range.setStart(node, from);
      range.setEnd(node, to);
      ranges.push(range);
    }
  }
  return ranges;
}
