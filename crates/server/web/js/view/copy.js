// A text beside the button that copies it.
import { button, h, icon } from '../dom.js';

const SAID_MS = 1_500;

/** Frames a `pre`; the button stands beside it, never over its text. */
export function framed(pre) {
  pre.tabIndex = 0;
  const copy = button('Copy', { symbol: 'copy', onlyIcon: true, onclick: async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      said('check', 'Copied');
    } catch {
      // Where the clipboard is shut, the text is chosen for the keys.
      getSelection().selectAllChildren(pre);
      said('copy', 'Chosen: copy it with Ctrl or ⌘ + C');
    }
  } });
  copy.classList.add('copy');
  const say = (symbol, words) => {
    copy.replaceChildren(icon(symbol));
    copy.title = words;
    copy.setAttribute('aria-label', words);
  };
  const said = (symbol, words) => {
    say(symbol, words);
    setTimeout(say, SAID_MS, 'copy', 'Copy');
  };
  return h('div.code-frame', {}, pre, copy);
}

/** A text of our own in such a frame. */
export function snippet(text) {
  return framed(h('pre', {}, text));
}
