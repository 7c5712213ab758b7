import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

test('settings are saved when they are changed, and can be given back', async (t) => {
  const { page, server } = await world(t);
  await page.locator('#settings-open').click();
  const settings = page.locator('#settings');
  await settings.locator('#pruningAgent').waitFor();
  assert.equal(await settings.locator('#pruningAgent option').first().innerText(), 'Same as current agent (default)');
  await settings.locator('#strategy').selectOption('middle-removal');
  await settings.getByText(/Saved\./).waitFor();
  await settings.locator('#trigger').selectOption('percentage');
  await settings.locator('#figure').fill('60');
  await page.keyboard.press('Enter');
  await until('it is kept', async () => {
    const kept = await server.api('GET', '/api/settings');
    return kept.strategy === 'middle-removal' && kept.trigger?.percentage === 0.6;
  });
  await page.keyboard.press('Escape');
  await page.reload();
  await page.locator('#settings-open').click();
  await until('it is shown again', async () => (await settings.locator('#strategy').inputValue()) === 'middle-removal');
  assert.equal(await settings.locator('#figure').inputValue(), '60');
  await settings.getByRole('button', { name: 'As in the agent file' }).first().click();
  await until('it is given back', async () => (await server.api('GET', '/api/settings')).strategy === 'adaptive');
  await settings.locator('#strategy').selectOption('summarization');
  await settings.locator('#trigger').selectOption('planner');
  await settings.locator('.form-said[role="alert"]').waitFor();
  assert.deepEqual(page.failures, []);
});

test('each strategy is explained; compacting only by hand can be chosen', async (t) => {
  const { page, server } = await world(t);
  await page.locator('#settings-open').click();
  const settings = page.locator('#settings');
  await settings.getByText(/Compacts when it pays/).first().waitFor();
  await settings.locator('#strategy').selectOption('truncation');
  await settings.locator('.field', { has: page.locator('#strategy') }).getByText('Keeps the newest messages only.').waitFor();
  await settings.getByText('What each strategy does').click();
  assert.equal(await settings.locator('.strategies dd:visible').count(), 8);
  await settings.locator('#trigger').selectOption('manual');
  await until('it is kept', async () => (await server.api('GET', '/api/settings')).trigger?.type === 'manual');
  await page.reload();
  await page.locator('#settings-open').click();
  await until('it is shown again', async () => (await settings.locator('#trigger').inputValue()) === 'manual');
  assert.deepEqual(page.failures, []);
});
