// How long the page takes to open a session of 2,000 messages, and its longest task while an answer streams, beside an
// empty session. Prints the figures and judges nothing: `LONGHAUL=BINARY node --test measure/long.mjs`.
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { endBrowser, world } from '../browser/world.mjs';
import { history, prose, timeToOpen } from '../long_session.mjs';

after(endBrowser);

const TRIES = 4;

/** Milliseconds of the longest task while the open session streams `prose` and `end`. Tasks under 50 ms count as 0: the browser does not report them. */
async function longestTask(page, model, end) {
  model.answers.push({ text: `${prose}\n\n${end}`, piece: 24, delay: 4 });
  await page.evaluate(() => {
    window.longTasks = [0];
    window.taskWatch = new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration)));
    window.taskWatch.observe({ type: 'longtask' });
  });
  await say(page, `Write: ${end}`);
  await page.locator('.prose').getByText(end, { exact: true }).waitFor({ timeout: 60_000 });
  return page.evaluate(() => {
    window.taskWatch.disconnect();
    return Math.max(...window.longTasks);
  });
}

test('a session of 2,000 messages beside an empty one', async (t) => {
  const { page, model, server } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().waitFor();
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  // The first read of the session folds its log; what is measured is the page.
  await server.api('GET', `/api/sessions/${id}/messages?limit=1`);
  await say(page, 'Hello');
  await page.locator('.prose', { hasText: 'You said: Hello' }).waitFor();
  const empty = new URL(page.url()).hash.replace('#/s/', '');
  const opened = { long: [], empty: [] };
  const longest = { long: [], empty: [] };
  for (let tries = 0; tries < TRIES; tries += 1) {
    opened.long.push(await timeToOpen(page, id, 1));
    longest.long.push(await longestTask(page, model, `End of long try ${tries}.`));
    opened.empty.push(await timeToOpen(page, empty, 1));
    longest.empty.push(await longestTask(page, model, `End of empty try ${tries}.`));
  }
  const list = (figures) => figures.map(Math.round).join(', ');
  t.diagnostic(`opened in ${list(opened.long)} ms (empty session: ${list(opened.empty)})`);
  t.diagnostic(`longest task ${list(longest.long)} ms (empty session: ${list(longest.empty)})`);
});
