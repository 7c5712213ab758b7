import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** 800 messages; the lighthouse is spoken of in the 31st. */
function history() {
  return Array.from({ length: 400 }, (_, turn) => [
    { role: 'user', content: turn === 15 ? 'Who keeps the Lighthouse at night?' : `Question ${turn}` },
    { role: 'assistant', content: `Answer ${turn}, in **some** words.` },
  ]).flat();
}

/** Whether a row can be seen, and has the focus. */
const seen = (row) => row.evaluate((each) => {
  const [box, place] = [each.getBoundingClientRect(), document.getElementById('scroller').getBoundingClientRect()];
  return box.top >= place.top && box.bottom <= place.bottom && document.activeElement === each;
});

test('each hit leads to its place, however far back, and the address keeps it', async (t) => {
  const { page } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('lighthouse');
  const hit = page.locator('.hit', { hasText: 'keeps the Lighthouse' });
  await hit.waitFor();
  assert.equal(await hit.locator('mark').innerText(), 'Lighthouse');
  await page.keyboard.press('Enter');
  const row = page.locator('.message', { hasText: 'keeps the Lighthouse' });
  await until('the message', async () => (await row.count()) === 1 && seen(row));
  await until('its word is marked', () => page.evaluate(() => [...CSS.highlights.get('found') ?? []].some((range) => range.toString() === 'Lighthouse')));
  await page.locator('#jump').click();
  await until('the end', async () => (await row.count()) === 0);
  await hit.click();
  await until('the message once more', async () => (await row.count()) === 1 && seen(row));
  await page.locator('#session-search').fill('');
  assert.equal(await page.evaluate(() => CSS.highlights.size), 0, 'nothing is searched for any more');
  assert.match(page.url(), /#\/s\/[\w-]+\/\d+$/);
  await page.reload();
  await until('the message after a reload', async () => (await row.count()) === 1 && seen(row));
  await page.locator('.session-link').first().click();
  await until('the session itself is its end', async () => /Answer 399/.test(await page.locator('.rows').innerText()));
  assert.deepEqual(page.failures, []);
});

test('what was compacted is found where it was said', async (t) => {
  const { page, model, server } = await world(t, { window: 9_000 });
  writeFileSync(join(server.workspace, 'a.txt'), Array.from({ length: 200 }, (_, at) => `some words in line ${at}`).join('\n'));
  for (let at = 0; at < 4; at += 1) {
    model.answers.push({ text: `Part ${at}.`, calls: [{ name: 'read', args: { path: 'a.txt', offset: at * 40 + 1, limit: 40 } }] }, { text: `It speaks of harbour ${at}.` });
    await say(page, `Look ${at}`);
    await page.locator('.prose', { hasText: `harbour ${at}.` }).waitFor();
    await page.locator('#stop').waitFor({ state: 'hidden' });
  }
  await say(page, '/compact');
  await page.locator('.fold').first().getByText(/compacted \d+ messages/).waitFor();
  const row = page.locator('.rows > .message', { hasText: 'harbour 0' });
  assert.equal(await row.count(), 0, 'it is folded away');
  await page.locator('#session-search').fill('harbour 0');
  await page.locator('.hit', { hasText: 'harbour 0' }).first().click();
  await until('it stands where it was', async () => (await row.count()) === 1 && seen(row));
  await page.getByRole('button', { name: 'Fold away' }).click();
  await until('folded again', async () => (await row.count()) === 0);
  assert.deepEqual(page.failures, []);
});

test('the list is walked with the arrows, and says what it did not find', async (t) => {
  const { page, server } = await world(t);
  for (const title of ['Tides', 'Lamps']) await server.api('POST', '/api/sessions', { title });
  await page.reload();
  await page.locator('.session').nth(1).waitFor();
  await page.locator('#session-search').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Tides, at rest');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'session-search');
  await page.keyboard.type('lamp');
  await until('one is left', async () => (await page.locator('.session').count()) === 1);
  await page.keyboard.press('Enter');
  await until('it is open', async () => (await page.locator('#title').innerText()) === 'Lamps');
  assert.deepEqual(page.failures, []);
});
