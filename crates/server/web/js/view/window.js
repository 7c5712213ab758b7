// A list of which only the part near the window is in the document. What is being read does not move, whatever
// happens above it; the end is followed only while the reader is there.

/** Beyond the window, in pixels. */
const OVERSCAN = 900;
const AT_END = 32;
/** Views kept for rows that are out of sight, so that what was opened stays open. */
const KEPT_VIEWS = 300;

export class Windowed {
  /**
   * `make(row)` gives a view `{element, update(row)}`; `guess(row)` a height; `onMove()` hears of scrolling.
   */
  constructor(scroller, { make, guess, onMove, tail }) {
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
    scroller.append(this.list, tail);
    this.sizes = new ResizeObserver((entries) => this.resized(entries));
    this.sizes.observe(scroller);
    this.sizes.observe(tail);
    scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
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

  scrolled() {
    const { scrollTop } = this.scroller;
    const isAtEnd = this.fromEnd() < AT_END;
    if (isAtEnd) this.isPinned = true;
    else if (scrollTop < this.lastTop - 1) this.isPinned = false;
    this.lastTop = scrollTop;
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

  /** The first row in sight, and where it stands. */
  anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const [key, view] of this.mounted) {
      const box = view.element.getBoundingClientRect();
      if (box.bottom > top && this.index.has(key)) return { key, top: box.top - top };
    }
    return null;
  }

  render({ keep = true } = {}) {
    const anchor = this.isPinned || !keep ? null : this.anchor();
    const offsets = this.offsets();
    const size = this.scroller.clientHeight;
    const listTop = this.list.offsetTop - this.scroller.offsetTop;
    let top = this.scroller.scrollTop - listTop;
    if (this.isPinned) top = offsets.at(-1) - size;
    else if (anchor) top = offsets[this.index.get(anchor.key)] - anchor.top - listTop;
    const first = Math.max(0, place(offsets, top - OVERSCAN));
    const last = Math.min(this.rows.length - 1, place(offsets, top + size + OVERSCAN));
    const fresh = this.mount(first, last);
    for (const [key, view] of fresh) this.heights.set(key, view.element.getBoundingClientRect().height);
    const sized = fresh.length ? this.offsets() : offsets;
    this.above.style.setProperty('height', `${sized[first] ?? 0}px`);
    this.below.style.setProperty('height', `${sized.at(-1) - (sized[last + 1] ?? 0)}px`);
    this.settle(anchor);
  }

  settle(anchor) {
    if (this.isPinned) {
      this.scroller.scrollTop = this.scroller.scrollHeight;
    } else if (anchor && this.mounted.has(anchor.key)) {
      const now = this.mounted.get(anchor.key).element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
      if (Math.abs(now - anchor.top) > 0.5) this.scroller.scrollTop += now - anchor.top;
    }
    this.lastTop = this.scroller.scrollTop;
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

  /** What grew or shrank above the window must not move what is in it. */
  resized(entries) {
    const top = this.scroller.getBoundingClientRect().top;
    let shift = 0;
    for (const { target } of entries) {
      const key = target.dataset?.key;
      if (key === undefined || !this.mounted.has(key)) continue;
      const box = target.getBoundingClientRect();
      const before = this.heights.get(key) ?? box.height;
      this.heights.set(key, box.height);
      if (box.top + before <= top) shift += box.height - before;
    }
    if (this.isPinned) this.scroller.scrollTop = this.scroller.scrollHeight;
    else if (Math.abs(shift) > 0.5) this.scroller.scrollTop += shift;
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
