import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, gate, until, world } from './world.mjs';

after(endBrowser);

test('Esc stops an answer and keeps what was said', async (t) => {
  const { page, model } = await world(t);
  const rest = gate();
  model.answers.push({ text: 'The first half', hold: rest.closed });
  await say(page, 'Talk');
  await page.locator('.tail', { hasText: 'The first half' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.cut', { hasText: 'Stopped here' }).waitFor();
  await page.locator('.caret').waitFor({ state: 'detached' });
  assert.deepEqual((await conversation(page)).map(([, text]) => text), ['Talk', 'The first half']);
  assert.equal(await page.locator('#stop').isVisible(), false);
  await page.reload();
  await until('the same after a reload', async () => (await conversation(page)).length === 2);
  await page.locator('.cut', { hasText: 'Stopped here' }).waitFor();
  rest.open();
});

test('the button stops a tool that runs; its line says so, and its output stays', async (t) => {
  const { page, model } = await world(t, { config: 'approvals: { rules: [{ tool: bash, decision: allow }] }' });
  // What passes by before the page watches cannot be had again: the session is open first.
  await say(page, 'Hello');
  await page.locator('.prose', { hasText: 'You said: Hello' }).waitFor();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  model.answers.push({ text: 'I wait.', calls: [{ name: 'bash', args: { command: 'echo begun; sleep 100' } }] });
  await say(page, 'Run it');
  await page.locator('.output', { hasText: 'begun' }).waitFor();
  await page.locator('.tool[data-status="running"]').waitFor();
  await until('a running clock', async () => /\d/.test(await page.locator('.tool-time').innerText()));
  await page.locator('#stop').click();
  await page.locator('.tool[data-status="cancelled"]').waitFor();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  assert.equal(await page.locator('.tool-outcome').innerText(), 'cancelled');
  assert.deepEqual(page.failures, []);
});

test('Esc stops the run first, whatever else is open; what has the focus closes before', async (t) => {
  const { page, model } = await world(t, { modelOptions: { models: ['calm-30b', 'swift-8b'] } });
  const rest = gate();
  model.answers.push({ text: 'Still writing', hold: rest.closed });
  await say(page, 'Talk');
  await page.locator('.tail', { hasText: 'Still writing' }).waitFor();
  await page.locator('#model').click();
  await page.locator('#model-menu button', { hasText: 'swift-8b' }).click();
  const toast = page.locator('#toast', { hasText: 'at the next step' });
  await toast.waitFor();
  await toast.getByRole('button', { name: 'Close' }).focus();
  await page.keyboard.press('Escape');
  await toast.waitFor({ state: 'hidden' });
  assert.equal(await page.locator('#stop').isVisible(), true, 'the toast had the focus');
  await page.locator('#model').click();
  await page.locator('#model-menu button', { hasText: 'swift-8b' }).click();
  await toast.waitFor();
  await page.locator('#input').focus();
  await page.keyboard.press('Escape');
  await page.locator('.cut', { hasText: 'Stopped here' }).waitFor();
  assert.equal(await toast.isVisible(), true);
  await page.keyboard.press('Escape');
  await toast.waitFor({ state: 'hidden' });
  rest.open();
  assert.deepEqual(page.failures, []);
});

test('the time of a tool is the time that it ran, also after a reload', async (t) => {
  const { page, model } = await world(t);
  model.answers.push({ text: 'May I?', calls: [{ name: 'bash', args: { command: 'sleep 1.2' } }] }, { text: 'Done.' });
  await say(page, 'Run it');
  await page.locator('.approval').waitFor();
  await page.waitForTimeout(3_200);
  const allowed = Date.now();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.prose', { hasText: 'Done.' }).waitFor();
  // A second more than it can have run, for what is rounded; the wait for the answer would be three more.
  const most = (Date.now() - allowed) / 1_000 + 1;
  await page.locator('#stop').waitFor({ state: 'hidden' });
  model.answers.push({ text: 'May I again?', calls: [{ name: 'bash', args: { command: 'true' } }] });
  await say(page, 'And again');
  await page.locator('.approval').waitFor();
  await page.waitForTimeout(1_500);
  await page.keyboard.press('Escape');
  await page.locator('.tool[data-status="cancelled"]').waitFor();
  const times = () => page.locator('.tool-time').evaluateAll((all) => all.map((each) => parseFloat(each.innerText.replace(/[^\d.]/g, '')) || 0));
  for (const when of ['at once', 'after a reload']) {
    const [ran, never] = await times();
    assert.ok(ran >= 1 && ran < most, `${when}: ${ran} s of ${most}`);
    assert.equal(never, 0, `${when}: what never ran has no time`);
    await page.reload();
    await until('both tools', async () => (await times()).length === 2);
  }
  assert.deepEqual(page.failures, []);
});
