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
  await page.locator('.notice', { hasText: 'Stopped' }).waitFor();
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
  model.answers.push({ text: 'I wait.', calls: [{ name: 'bash', args: { command: 'echo begun; sleep 60' } }] });
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
