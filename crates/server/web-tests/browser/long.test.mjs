import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openPage, say } from '../browser.mjs';
import { history, prose, timeToOpen } from '../long_session.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

test('a session of 2,000 messages shows its newest ones, and an arriving answer changes no other message', async (t) => {
  const { page, model, server } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().waitFor();
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  await timeToOpen(page, id, 4);
  assert.match(await page.locator('.rows').innerText(), /That is answer 499/);
  const rows = () => page.locator('.rows > [data-key]').count();
  assert.ok(await rows() < 120, `${await rows()} rows are in the document`);
  await until('rendered', async () => (await page.locator('.rows .block.plain').count()) === 0);

  // What makes streaming slow in a long session is work on the messages that stand already. The times themselves are
  // for `just page-times`: on a busy machine they say more about the machine than about the page.
  await page.evaluate(() => {
    const standing = new Set(document.querySelectorAll('.rows > [data-key]'));
    window.standingRows = standing.size;
    window.changedRows = new Set();
    window.insertedRows = 0;
    window.rowWatch = new MutationObserver((records) => {
      for (const { type, target, addedNodes } of records) {
        const row = target.closest?.('[data-key]') ?? target.parentElement?.closest('[data-key]');
        if (row && type !== 'attributes' && standing.has(row)) window.changedRows.add(row.dataset.key);
        if (!row) window.insertedRows += [...addedNodes].filter((node) => node.dataset?.key).length;
      }
    });
    window.rowWatch.observe(document.querySelector('.rows'), { subtree: true, childList: true, characterData: true });
  });
  model.answers.push({ text: `${prose}\n\nThe end of the answer.`, piece: 24, delay: 4 });
  await say(page, 'Write a long answer.');
  await page.locator('.prose').getByText('The end of the answer.', { exact: true }).waitFor({ timeout: 60_000 });
  const seen = await page.evaluate(() => ({ standing: window.standingRows, changed: [...window.changedRows], inserted: window.insertedRows }));
  assert.deepEqual(seen.changed, [], 'messages that stood already were drawn again');
  assert.ok(seen.inserted <= 20, `${seen.inserted} rows were put into the document for one question and its answer`);
  assert.ok(await rows() < 120, `${await rows()} rows are in the document`);
  assert.deepEqual(page.failures, []);
});

test('every one of them can be reached, and reading up does not jump', async (t) => {
  const { page } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().click();
  await page.locator('.rows .message').first().waitFor();
  const scroller = page.locator('#scroller');
  for (let step = 0; step < 20; step += 1) {
    await until('rendered', async () => (await page.locator('.rows .block.plain').count()) === 0);
    const moved = await scroller.evaluate(async (each) => {
      const top = each.getBoundingClientRect().top;
      const row = [...each.querySelectorAll('.rows > [data-key]')].find((one) => one.getBoundingClientRect().top >= top);
      const before = row.getBoundingClientRect().top;
      each.scrollTop -= 400;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return row.getBoundingClientRect().top - before;
    });
    assert.ok(Math.abs(moved - 400) <= 2, `moved by ${moved} at step ${step}`);
  }
  await until('the first message', async () => {
    await scroller.evaluate((each) => { each.scrollTop = Math.max(0, each.scrollTop - 6_000); });
    return /Question 0:/.test(await page.locator('.rows').innerText());
  }, 40_000);
  await page.locator('#jump').click();
  await until('the end', async () => /That is answer 499/.test(await page.locator('.rows').innerText()));
  assert.deepEqual(page.failures, []);
});

test('a second window sees the same while it streams', async (t) => {
  const { page, model, server } = await world(t);
  await say(page, 'First');
  await page.getByText('You said: First').first().waitFor();
  const other = await openPage(page.context().browser(), server, { path: `/${new URL(page.url()).hash}` });
  t.after(() => other.context().close());
  await other.locator('.prose', { hasText: 'You said: First' }).waitFor();
  model.answers.push({ text: 'Seen by **both** of us.', delay: 15, piece: 3 });
  await say(page, 'Again');
  for (const each of [page, other]) await each.locator('.prose', { hasText: 'Seen by both of us.' }).waitFor();
  assert.deepEqual([...page.failures, ...other.failures], []);
});
