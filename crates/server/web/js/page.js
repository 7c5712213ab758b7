// What all parts of the page share: which session is open, and which there are.
import { showLogin } from './controls/login.js';
import { toast } from './controls/toast.js';
import { emptyState } from './state/state.js';
import { readAddress } from './text/address.js';

export const page = {
  /** The `OpenSession`; `null` before the first word. */
  open: null,
  /** The sessions as they were listed last. */
  sessions: [],
  hasList: false,
  /** Who answers by default: `{model}`, once it is known. */
  usual: null,
  /** Who shall answer in the next new session: `{agent?, model?, shown}`; `null` for the usual one. */
  chosen: null,
};

export const state = () => page.open?.state ?? emptyState(null);
export const currentId = () => page.open?.id ?? null;
/** The session of the address as it was listed, whether it could be opened or not. */
/** Whether the page stands before the first word of a new session. */
export const isFresh = () => !page.open && readAddress(location.hash).id === null;
export const listed = () => page.sessions.find((each) => each.id === readAddress(location.hash).id);

/** Says what was refused; where the door is shut, asks for the token. */
export function tell(problem) {
  if (problem.status === 401) showLogin();
  else toast({ title: problem.message, tone: 'failure' });
}

/** Leads to an address; the one that is open already is looked at again. */
export function go(hash) {
  if (location.hash === hash || (hash === '#/' && location.hash === '')) dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = hash;
}
