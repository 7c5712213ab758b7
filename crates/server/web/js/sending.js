// What a person says goes to the open session; the first message begins one.
import { announce } from './controls/announce.js';
import { showLogin } from './controls/login.js';
import { api } from './net/api.js';
import { currentId, go, tell } from './page.js';
import { addressOf } from './text/address.js';

/** @returns whether it began a session */
export async function send(text, files) {
  try {
    const content = files.length ? [...(text.trim() ? [{ type: 'text', text }] : []), ...files] : text;
    const isFirst = !currentId();
    const answer = await api.send(currentId() ?? undefined, content);
    if (isFirst) go(addressOf(answer.sessionId));
    if (answer.queued) announce(answer.message);
    return isFirst;
  } catch (problem) {
    if (problem.status === 401) showLogin();
    throw problem;
  }
}

export async function stop() {
  if (!currentId()) return;
  try {
    const { cancelled } = await api.cancel(currentId());
    announce(cancelled ? 'Stopped.' : 'Nothing was running.');
  } catch (problem) {
    tell(problem);
  }
}
