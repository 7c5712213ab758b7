// Elements from values. No markup is ever made of text here.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * `h('button.quiet', {type: 'button', onclick: f}, 'Undo')`. What is `null` or `false` is left out.
 */
export function h(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length) element.className = classes.join(' ');
  return fill(element, attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'vars') Object.entries(value).forEach(([key, each]) => element.style.setProperty(key, each));
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** One of the symbols in the page. */
export function icon(name, label) {
  const use = s('use', { href: `#i-${name}` });
  return s('svg', { class: 'icon', 'aria-hidden': label ? null : 'true', role: label ? 'img' : null, 'aria-label': label }, use);
}

/** A button with a symbol and, unless it is only for the eye, a word. */
export function button(label, { symbol, kind = 'quiet', onclick, title, onlyIcon = false, ...more } = {}) {
  return h(
    `button.button.${kind}${onlyIcon ? '.only-icon' : ''}`,
    { type: 'button', title: title ?? (onlyIcon ? label : null), 'aria-label': onlyIcon ? label : null, onclick, ...more },
    symbol ? icon(symbol) : null,
    onlyIcon ? null : label,
  );
}

/** Sets a text only where it changes. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces the children. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A text of which what stands between backticks is code. */
export function coded(text) {
  const pieces = text.split('`');
  if (pieces.length % 2 === 0) return [text];
  return pieces.map((piece, at) => (at % 2 ? h('code', {}, piece) : piece));
}

export const byId = (id) => document.getElementById(id);
