import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, gate, until, world } from './world.mjs';

after(endBrowser);

const twoModels = { modelOptions: { models: ['calm-30b', 'swift-8b'] } };
const name = (page) => page.locator('#model-name').innerText();

test('another model answers from the next message on, by hand or by command; the history stays', async (t) => {
  const { page, model } = await world(t, twoModels);
  await say(page, 'Hello');
  await until('an answer', async () => (await conversation(page)).length === 2);
  await until('who it is', async () => (await name(page)) === 'calm-30b');
  await page.locator('#model').click();
  const menu = page.locator('#model-menu');
  await menu.locator('[aria-checked="true"]', { hasText: 'calm-30b' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'calm-30b', 'the focus is on the one that answers now');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await until('the other one', async () => (await name(page)) === 'swift-8b');
  await menu.waitFor({ state: 'hidden' });
  await page.locator('.notice', { hasText: 'The model is now swift-8b. The whole history stays.' }).waitFor();
  await say(page, 'Again');
  await until('its answer', async () => (await conversation(page)).length === 4);
  assert.equal(model.requests.at(-1).model, 'swift-8b');
  assert.match(JSON.stringify(model.requests.at(-1).messages), /You said: Hello/);
  await page.reload();
  await until('it is kept', async () => (await page.locator('#model').isVisible()) && (await name(page)) === 'swift-8b');
  await say(page, '/model calm-30b');
  await until('the first one', async () => (await name(page)) === 'calm-30b');
  await say(page, '/model nonesuch');
  await page.locator('#composer-said', { hasText: 'no server lists it' }).waitFor();
  assert.equal(await page.locator('#input').inputValue(), '/model nonesuch', 'what was refused stays in the field');
  assert.deepEqual(page.failures, []);
});

test('in mid-answer the switch waits for the next step, and says so', async (t) => {
  const { page, model } = await world(t, twoModels);
  const rest = gate();
  model.answers.push({ text: 'Still writing', hold: rest.closed });
  await say(page, 'Go');
  await page.locator('.caret').waitFor();
  await page.locator('#model').click();
  await page.locator('#model-menu button', { hasText: 'swift-8b' }).click();
  await page.locator('#toast', { hasText: 'at the next step' }).waitFor();
  rest.open();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await say(page, 'Next');
  await until('the next answer', async () => (await conversation(page)).length === 4);
  assert.equal(model.requests.at(-1).model, 'swift-8b');
  await until('the header', async () => (await name(page)) === 'swift-8b');
  assert.deepEqual(page.failures, []);
});
