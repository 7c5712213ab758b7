// A list of which only the part near the window is in the document. What is being read does not move, whatever
// happens above it; the end is followed only while the reader is there.

/** Beyond the window, in pixels. */
const OVERSCAN = 900;
const AT_END = 32;
/** Parts of a row by which a place in it is remembered. */
const BLOCKS = '.block, .tool';
/** Views kept for rows that are out of sight, so that what was opened stays open. */
const KEPT_VIEWS = 300;

export class Windowed {
  /**
   * `make(row)` gives a view `{element, update(row)}`; `guess(row)` a height; `onMove()` hears of scrolling. `head`
   * and `tail` stand around the list.
   */
  constructor(scroller, { make, guess, onMove, head, tail }) {
    Object.assign(this, { scroller, make, guess, onMove });
    this.rows = [];
    this.index = new Map();
    this.heights = new Map();
    this.views = new Map();
    this.mounted = new Map();
    this.isPinned = true;
    this.lastTop = 0;
    this.above = document.createElement('div');
    this.below = document.createElement('div');
    this.list = document.createElement('div');
    this.list.className = 'rows';
    this.list.append(this.above, this.below);
    scroller.append(head, this.list, tail);
    this.sizes = new ResizeObserver((entries) => this.resized(entries));
    this.sizes.observe(scroller);
    this.sizes.observe(tail);
    scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    this.list.addEventListener('click', (event) => this.clicked(event), { capture: true });
  }

  setRows(rows) {
    this.rows = rows;
    this.index = new Map(rows.map((row, at) => [row.key, at]));
    this.render();
  }

  clear() {
    for (const view of this.mounted.values()) this.sizes.unobserve(view.element);
    this.views.clear();
    this.mounted.clear();
    this.heights.clear();
    this.list.replaceChildren(this.above, this.below);
    this.isPinned = true;
    this.setRows([]);
  }

  /** What is opened or closed stays where it is, under the hand. */
  clicked(event) {
    if (!event.target.closest('button, summary')) return;
    const row = event.target.closest('[data-key]');
    if (row) this.holdOn(row);
    if (!this.isPinned) return;
    this.isPinned = false;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (this.fromEnd() < AT_END) this.isPinned = true;
      this.onMove();
    }));
  }

  /** For a moment it is this row that stays. */
  holdOn(row) {
    this.held = { key: row.dataset.key, until: performance.now() + 600 };
    this.mark();
  }

  /** Remembers what is read, and where it stands. */
  mark() {
    this.place = this.isPinned ? null : this.anchor();
  }

  scrolled() {
    const { scrollTop } = this.scroller;
    const isAtEnd = this.fromEnd() < AT_END;
    if (isAtEnd) this.isPinned = true;
    else if (scrollTop < this.lastTop - 1) this.isPinned = false;
    this.lastTop = scrollTop;
    this.mark();
    this.schedule();
    this.onMove();
  }

  fromEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.render();
    });
  }

  toEnd() {
    this.isPinned = true;
    this.render();
    this.onMove();
  }

  /** Brings a row into sight. */
  reveal(key) {
    if (!this.index.has(key)) return null;
    this.isPinned = false;
    for (let tries = 0; tries < 3; tries += 1) {
      this.scroller.scrollTop = this.offsets()[this.index.get(key)] - 60;
      this.render({ keep: false });
    }
    this.lastTop = this.scroller.scrollTop;
    this.onMove();
    return this.mounted.get(key) ?? null;
  }

  height(row) {
    return this.heights.get(row.key) ?? this.guess(row);
  }

  offsets() {
    const offsets = new Float64Array(this.rows.length + 1);
    this.rows.forEach((row, at) => { offsets[at + 1] = offsets[at] + this.height(row); });
    return offsets;
  }

  /** What is to stay where it stands: the first row, or block of one, that begins in sight; else the row that fills it. */
  anchor() {
    const { top, bottom } = this.scroller.getBoundingClientRect();
    const at = (key, element) => {
      const begins = element.getBoundingClientRect().top;
      const within = begins - this.mounted.get(key).element.getBoundingClientRect().top;
      return { key, element, within, top: begins - top };
    };
    if (this.held && performance.now() < this.held.until && this.mounted.has(this.held.key)) {
      return at(this.held.key, this.mounted.get(this.held.key).element);
    }
    let filling = null;
    for (const [key, { element }] of this.mounted) {
      const box = element.getBoundingClientRect();
      if (!this.index.has(key) || box.bottom <= top) continue;
      if (box.top >= top) return box.top < bottom || !filling ? at(key, element) : filling;
      filling = at(key, element);
      for (const block of element.querySelectorAll(BLOCKS)) {
        const begins = block.getBoundingClientRect().top;
        if (begins >= top && begins < bottom) return at(key, block);
      }
    }
    return filling;
  }

  render({ keep = true } = {}) {
    const anchor = this.isPinned || !keep ? null : this.anchor();
    const offsets = this.offsets();
    const size = this.scroller.clientHeight;
    const listTop = this.list.offsetTop - this.scroller.offsetTop;
    let top = this.scroller.scrollTop - listTop;
    if (this.isPinned) top = offsets.at(-1) - size;
    else if (anchor) top = offsets[this.index.get(anchor.key)] + anchor.within - anchor.top;
    const first = Math.max(0, place(offsets, top - OVERSCAN));
    const last = Math.min(this.rows.length - 1, place(offsets, top + size + OVERSCAN));
    const fresh = this.mount(first, last);
    for (const [key, view] of fresh) this.heights.set(key, view.element.getBoundingClientRect().height);
    const sized = fresh.length ? this.offsets() : offsets;
    this.above.style.setProperty('height', `${sized[first] ?? 0}px`);
    this.below.style.setProperty('height', `${sized.at(-1) - (sized[last + 1] ?? 0)}px`);
    this.settle(anchor);
  }

  /** Scrolls so that what was remembered stands where it stood. */
  putBack(place) {
    if (!place?.element.isConnected) return;
    const now = place.element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
    if (Math.abs(now - place.top) > 0.5) this.scroller.scrollTop += now - place.top;
  }

  settle(anchor) {
    if (this.isPinned) {
      this.scroller.scrollTop = this.scroller.scrollHeight;
    } else {
      this.putBack(anchor);
    }
    this.lastTop = this.scroller.scrollTop;
    this.mark();
  }

  mount(first, last) {
    const wanted = new Set();
    for (let at = first; at <= last; at += 1) wanted.add(this.rows[at].key);
    for (const [key, view] of this.mounted) {
      if (wanted.has(key)) continue;
      if (view.element.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
      this.sizes.unobserve(view.element);
      view.element.remove();
      this.mounted.delete(key);
    }
    const fresh = [];
    const order = new Map();
    let before = this.above;
    for (let at = first; at <= last; at += 1) {
      const row = this.rows[at];
      const view = this.viewOf(row);
      if (!this.mounted.has(row.key)) {
        fresh.push([row.key, view]);
        this.sizes.observe(view.element);
      }
      if (before.nextSibling !== view.element) before.after(view.element);
      before = view.element;
      order.set(row.key, view);
    }
    this.mounted = order;
    return fresh;
  }

  viewOf(row) {
    const known = this.views.get(row.key);
    if (known) {
      if (known.row !== row) {
        known.row = row;
        known.view.update(row);
      }
      return known.view;
    }
    const view = this.make(row);
    view.element.dataset.key = row.key;
    this.views.set(row.key, { row, view });
    if (this.views.size > KEPT_VIEWS) this.forget();
    return view;
  }

  forget() {
    for (const key of this.views.keys()) {
      if (this.views.size <= KEPT_VIEWS - 50) return;
      if (!this.mounted.has(key)) this.views.delete(key);
    }
  }

  /** What grew or shrank must not move what is read. */
  resized(entries) {
    for (const { target } of entries) {
      const key = target.dataset?.key;
      if (key !== undefined && this.mounted.has(key)) this.heights.set(key, target.getBoundingClientRect().height);
    }
    if (this.isPinned) {
      this.scroller.scrollTop = this.scroller.scrollHeight;
    } else {
      this.putBack(this.place);
    }
    this.lastTop = this.scroller.scrollTop;
    this.schedule();
    this.onMove();
  }
}

/** The row at an offset. */
function place(offsets, at) {
  let [low, high] = [0, offsets.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}
