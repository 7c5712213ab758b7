// A question whether a tool may run: what exactly, and the two answers.
import { button, h, show } from '../dom.js';
import { alwaysAllows, alwaysLabel } from '../text/calls.js';
import { exact } from '../text/exact.js';
import { limitedScope } from '../text/scope.js';

/** Numbers the sentences that describe a button: a page may show several questions. */
let described = 0;

/**
 * `decide(decision, reason)` answers a promise, and `always(scope)` one that allows all calls that the scope covers;
 * `leave()` takes the focus when it was answered here.
 */
export function approvalView(call, { decide, always, leave }) {
  const said = h('p.form-said', { role: 'alert' });
  const reason = h('input', {
    type: 'text', maxlength: '2000', 'aria-label': 'Why not? The agent reads it', placeholder: 'Why not? The agent reads it (optional)',
  });
  const view = h('div.approval', { role: 'group', 'aria-label': `May ${exact(call.name)} run?` });
  const answer = async (work) => {
    view.setAttribute('aria-busy', 'true');
    view.querySelectorAll('button').forEach((each) => { each.disabled = true; });
    try {
      await work();
      // A button that is disabled loses the focus to the page.
      if (document.activeElement === document.body || view.contains(document.activeElement)) leave();
    } catch (problem) {
      view.querySelectorAll('button').forEach((each) => { each.disabled = false; });
      said.textContent = problem.message;
    } finally {
      view.removeAttribute('aria-busy');
    }
  };
  const denying = h(
    'form.deny', { hidden: true, onsubmit: (event) => { event.preventDefault(); answer(() => decide('deny', reason.value.trim())); } },
    reason,
    h('button.button.danger', { type: 'submit' }, 'Deny'),
    button('Back', { onclick: () => { denying.hidden = true; choice.hidden = false; choice.querySelector('button').focus(); } }),
  );
  const limited = limitedScope(call);
  const scopeId = `always-${described += 1}`;
  const choice = h(
    'div.choice', {},
    button('Allow', { kind: 'primary', symbol: 'check', onclick: () => answer(() => decide('allow')) }),
    button('Deny …', { onclick: () => { choice.hidden = true; denying.hidden = false; reason.focus(); } }),
    limited && button(alwaysLabel(limited), {
      title: 'Further calls of this kind in this session, as long as this tab is open', onclick: () => answer(() => always(limited)),
    }),
    button(`Always allow ${exact(call.name)}`, { 'aria-describedby': scopeId, onclick: () => answer(() => always({ tool: call.name })) }),
    h('span.quiet', {}, 'Nothing happens before you answer.'),
    // A sentence and no title: a title is not shown where nothing hovers.
    h('p.quiet.always', { id: scopeId }, alwaysAllows(call.name, limited)),
  );
  denying.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    denying.hidden = true;
    choice.hidden = false;
    choice.querySelector('button').focus();
  });
  return show(view, choice, denying, said);
}
