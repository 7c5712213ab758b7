// What a person says goes to the open session; the first message begins one.
import { announce } from './controls/announce.js';
import { showLogin } from './controls/login.js';
import { toast } from './controls/toast.js';
import { api } from './net/api.js';
import { currentId, go, page, tell } from './page.js';
import { addressOf } from './text/address.js';
import { firstLine } from './text/format.js';
import { refusedModel } from './text/models.js';

/** As the server cuts the title that it makes of a message. */
const TITLE_CHARS = 60;

/** @returns whether it began a session */
export async function send(text, files) {
  try {
    const content = files.length ? [...(text.trim() ? [{ type: 'text', text }] : []), ...files] : text;
    const isFirst = !currentId();
    const answer = await (isFirst ? begin(text, content) : api.send(currentId(), content));
    if (isFirst) go(addressOf(answer.sessionId));
    if (answer.queued) announce(answer.message);
    return isFirst;
  } catch (problem) {
    if (problem.status === 401) showLogin();
    throw problem;
  }
}

/** A new session under what was chosen for it. One that cannot have it is not kept. */
async function begin(text, content) {
  const { agent, model } = page.chosen ?? {};
  const answer = model ? await beginUnder(model, agent, text, content) : await api.send(undefined, content, agent);
  page.chosen = null;
  return answer;
}

async function beginUnder(model, agent, text, content) {
  const { id } = await api.create({ agent, title: firstLine(text.replace(/\s+/g, ' '), TITLE_CHARS) || 'Files' });
  try {
    await switchModel(id, { model });
    return await api.send(id, content);
  } catch (problem) {
    // What nobody answered to may have been taken.
    if (problem.status) await api.remove(id).catch(() => {});
    throw problem;
  }
}

/** Another agent or model for a session. */
export async function switchModel(id, choice) {
  try {
    return await api.switchModel(id, choice);
  } catch (problem) {
    problem.message = refusedModel(problem.message, choice.model);
    throw problem;
  }
}

/** Goes on after an error, or with what waits. */
export async function goOn() {
  if (page.open?.state.retry) return tryNow();
  const { resumed, reason } = await api.resume(currentId());
  if (!resumed) toast({ title: 'Nothing was begun', lines: [reason] });
}

/** Asks the model's server again at once, while the session waits for it. */
export async function tryNow() {
  const { retried } = await api.retry(currentId());
  announce(retried ? 'Trying again.' : 'The session does not wait for its model server.');
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
