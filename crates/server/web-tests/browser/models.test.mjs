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
  assert.equal(await page.locator('#composer-said').innerText(), '“nonesuch” is not a model of a configured agent, and no server lists it.');
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

test('a new session begins under the model that was chosen for it, and only that one', async (t) => {
  const { page, model, server } = await world(t, twoModels);
  await page.getByRole('button', { name: 'Choose who answers' }).click();
  const menu = page.locator('#model-menu');
  await menu.locator('[aria-checked="true"]', { hasText: 'calm-30b' }).waitFor();
  await menu.locator('button', { hasText: 'swift-8b' }).click();
  await page.locator('.answers', { hasText: 'swift-8b answers' }).waitFor();
  await until('the header', async () => (await name(page)) === 'swift-8b');
  await say(page, 'A first word');
  await until('an answer', async () => (await conversation(page)).length === 2);
  assert.deepEqual(model.requests.map((request) => request.model), ['swift-8b']);
  await until('its title', async () => (await page.locator('#title').innerText()) === 'A first word');
  await page.locator('#new-session').click();
  await page.locator('.answers', { hasText: 'calm-30b answers' }).waitFor();
  await say(page, '/model nonesuch');
  await say(page, 'Hello');
  await page.locator('#composer-said', { hasText: 'no server lists it' }).waitFor();
  assert.equal(await page.locator('#input').inputValue(), 'Hello', 'what was refused stays in the field');
  assert.equal((await server.api('GET', '/api/sessions')).sessions.length, 1, 'no empty session is left');
  assert.deepEqual(page.failures, []);
});

test('a new session begins with the agent that was chosen for it', async (t) => {
  const { page, server, model } = await world(t, {
    config: (url) => `agents: { reviewer: { model: { name: careful-8b, base_url: "${url}", context_window: 16000 } }, broken: { systemPrompt: "No model." } }`,
  });
  await page.locator('#model').click();
  const broken = page.locator('#model-menu button', { hasText: 'broken' });
  await broken.waitFor();
  assert.equal(await broken.isDisabled(), true);
  assert.equal(await broken.locator('.choice-note').textContent(), 'there is no model to talk to yet');
  await page.locator('#model-menu button', { hasText: 'reviewer' }).click();
  await page.locator('.answers', { hasText: 'careful-8b answers' }).waitFor();
  await say(page, 'Review this');
  await until('an answer', async () => (await conversation(page)).length === 2);
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  assert.equal((await server.api('GET', `/api/sessions/${id}`)).agent, 'reviewer');
  assert.equal(model.requests.at(-1).model, 'careful-8b');
  assert.deepEqual(page.failures, []);
});

test('the meter has the new window as soon as the model is another; an assumed one says so', async (t) => {
  const config = 'models: { swift-8b: { window: 64000 } }';
  const { page } = await world(t, { modelOptions: { ...twoModels.modelOptions, window: null }, config, window: 'auto' });
  const caption = page.locator('#meter-caption');
  await say(page, 'Hello');
  await until('an answer', async () => (await conversation(page)).length === 2);
  await page.locator('#meter').click();
  await until('the first window', async () => / 32K · .* · window assumed$/.test(await caption.innerText()));
  await page.locator('.panel-assumed', { hasText: 'The window of 32K is assumed' }).waitFor();
  // After the last step nothing is asked for any more.
  await page.waitForTimeout(800);
  await say(page, '/model swift-8b');
  await until('the other window', async () => / 64K · (?!.*assumed)/.test(await caption.innerText()));
  await page.locator('.panel-assumed').waitFor({ state: 'hidden' });
  assert.deepEqual(page.failures, []);
});
