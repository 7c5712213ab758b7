import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, gate, until, world } from './world.mjs';

after(endBrowser);

const chips = (page) => page.locator('#queue .chip:not(.leaves)').evaluateAll((all) => all.map((chip) => chip.querySelector('.chip-edit').innerText.replace(/\s+/g, ' ').trim()));

test('three messages wait, are edited and removed, and are taken as one', async (t) => {
  const { page, model } = await world(t);
  const rest = gate();
  model.answers.push({ text: 'Working', hold: rest.closed });
  await say(page, 'Begin');
  await page.locator('.caret').waitFor();
  assert.equal(await page.locator('#input').getAttribute('placeholder'), 'Message will be queued...');
  for (const text of ['one', 'two', 'three', 'four']) await say(page, text);
  await until('four chips', async () => (await chips(page)).length === 4);
  assert.deepEqual(await chips(page), ['1 one', '2 two', '3 three', '4 four']);

  await page.getByRole('button', { name: 'Remove the waiting message 2' }).click();
  await until('three chips', async () => (await chips(page)).join() === '1 one,2 three,3 four');

  await page.locator('#input').focus();
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.locator('#input').inputValue(), 'four');
  await page.locator('#input').fill('four, edited');
  await page.keyboard.press('Enter');
  await until('the edit', async () => (await chips(page)).at(-1) === '3 four, edited');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#input').inputValue(), '');
  assert.equal(await page.locator('#stop').isVisible(), true, 'Esc left the edit, not the run');

  rest.open();
  await until('the queue is taken', async () => (await conversation(page)).length === 4);
  const said = await conversation(page);
  assert.equal(said[2][1].replace(/\n+/g, '|'), '[1]: one|[2]: three|[3]: four, edited');
  await page.locator('#queue').waitFor({ state: 'hidden' });
  assert.deepEqual(page.failures, []);
});

test('what waits is there again after a reload', async (t) => {
  const { page, model } = await world(t);
  const rest = gate();
  model.answers.push({ text: 'Working', hold: rest.closed });
  await say(page, 'Begin');
  await page.locator('.caret').waitFor();
  await say(page, 'wait for me');
  await page.locator('#queue .chip').waitFor();
  await page.reload();
  await until('the chip', async () => (await chips(page)).join() === '1 wait for me');
  rest.open();
  await until('its answer', async () => (await conversation(page)).at(-1)?.[1] === 'You said: wait for me');
});

test('what waits after a stop says so, here and in the list, and goes by its button or by /resume', async (t) => {
  const { page, model } = await world(t);
  const held = page.locator('#queue .held');
  for (const [at, goOn] of [() => page.getByRole('button', { name: 'Send now' }).click(), () => say(page, '/resume')].entries()) {
    const rest = gate();
    model.answers.push({ text: 'Working', hold: rest.closed });
    await say(page, `Begin ${at}`);
    await page.locator('.caret').waitFor();
    await say(page, `wait for me ${at}`);
    await page.locator('#queue .chip').waitFor();
    assert.equal(await held.count(), 0, 'while the agent works it needs nobody');
    await page.keyboard.press('Escape');
    await held.getByText('It waits for your next message').waitFor();
    rest.open();
    await page.locator('.session[data-status="held"] .session-meta', { hasText: '1 waits' }).waitFor();
    assert.match(await page.locator('#input').getAttribute('placeholder'), /\/resume/);
    await page.reload();
    await held.waitFor();
    await goOn();
    await until('its answer', async () => (await conversation(page)).at(-1)?.[1] === `You said: wait for me ${at}`);
    await page.locator('#queue').waitFor({ state: 'hidden' });
    await page.locator('#stop').waitFor({ state: 'hidden' });
  }
  assert.deepEqual(page.failures, []);
});

test('a standing order is pinned, listed and removed by commands', async (t) => {
  const { page, model } = await world(t);
  model.answers.push({ text: 'Hello.' });
  await say(page, 'Hi');
  await page.locator('.prose', { hasText: 'Hello.' }).waitFor();
  await say(page, '/pin Never push to main.');
  await page.locator('#toast', { hasText: 'Pinned as o1' }).waitFor();
  await say(page, '/orders');
  await page.locator('#toast', { hasText: 'o1: Never push to main.' }).waitFor();
  await say(page, '/unpin o1');
  await page.locator('#toast', { hasText: 'o1 is no standing order any more' }).waitFor();
  await say(page, '/orders');
  await page.locator('#toast', { hasText: 'None yet.' }).waitFor();
  await say(page, '/pin Answer in French.');
  await page.locator('#toast', { hasText: 'Pinned as o2' }).waitFor();
  await say(page, '/unpin 1');
  await page.locator('#toast', { hasText: 'o2 is no standing order any more' }).waitFor();
  assert.deepEqual(page.failures, []);
});
