// The door: the page was opened without its link.
import { byId, setText } from '../dom.js';
import { api, ROOT } from '../net/api.js';
import { readAddress } from '../text/address.js';

export function showLogin(why = '') {
  const dialog = byId('login');
  if (dialog.open) return;
  setText(byId('login-why'), why);
  const form = byId('login-form');
  form.onsubmit = async (event) => {
    event.preventDefault();
    const field = byId('login-token');
    try {
      await api.login(field.value.trim());
      // The address of a session leads there once the token is known.
      if (readAddress(location.hash).id) location.reload();
      else location.replace(`${ROOT}/`);
    } catch (problem) {
      setText(byId('login-said'), problem.status === 401 ? 'This is not the token of this server.' : problem.message);
      field.select();
    }
  };
  dialog.oncancel = (event) => event.preventDefault();
  dialog.showModal();
}
