// Small questions, in the browser's own modal dialog: it keeps the focus and gives it back.
import { button, h } from '../dom.js';

/** Asks; answers whether it was confirmed. */
export function confirmed({ title, text, action, danger = false }) {
  return ask({ title, body: [h('p', {}, text)], action, danger }).then((answer) => answer !== null);
}

/** Asks for a line of text; `null` if it was left. */
export async function askText({ title, label, value = '', action, maxlength = 200 }) {
  const input = h('input', { type: 'text', value, maxlength, 'aria-label': label, autofocus: true, required: true });
  const answer = await ask({ title, body: [input], action });
  return answer === null ? null : input.value.trim() || null;
}

function ask({ title, body, action, danger }) {
  return new Promise((resolve) => {
    const dialog = h('dialog.small', { 'aria-label': title });
    const form = h(
      'form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); dialog.close('yes'); } },
      h('h2', {}, title), ...body,
      h('div.dialog-actions', {}, button('Cancel', { onclick: () => dialog.close() }), h(`button.button.${danger ? 'danger' : 'primary'}`, { type: 'submit' }, action)),
    );
    dialog.append(form);
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes' ? 'yes' : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector('input')?.select();
  });
}
