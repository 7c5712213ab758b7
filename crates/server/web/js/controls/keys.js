// Keys that work anywhere on the page.

export function listenForKeys({ escape, neighbour, help, settings, panel, fresh, field, search, review }) {
  const plain = { '?': help, ',': settings, m: panel, n: fresh, '/': field };
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (document.querySelector(':popover-open') || (event.target.matches?.('input') && event.target.value)) return;
      escape();
    } else if (event.altKey && ['ArrowUp', 'ArrowDown'].includes(event.key)) {
      neighbour(event.key === 'ArrowUp' ? -1 : 1);
    } else if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === 'k') {
      search();
    } else if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyR') {
      if (!review()) return;
    } else if (Object.hasOwn(plain, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target)) {
      plain[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  });
}

function isTyping(target) {
  return target.matches?.('input, textarea, select, [contenteditable]') ?? false;
}
