import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

test('nothing runs before it is allowed; the exact command is shown', async (t) => {
  const { page, model, server } = await world(t);
  const command = 'echo done > made.txt && cat made.txt';
  model.answers.push({ text: 'I make a file.', calls: [{ name: 'bash', args: { command } }] }, { text: 'Made.' });
  await say(page, 'Make it');
  await page.locator('.approval').waitFor();
  assert.equal(await page.locator('pre.command').innerText(), command);
  assert.match(await page.locator('#status-text').innerText(), /Waits for you: bash/);
  assert.equal(await page.locator('.session[data-status="waiting_approval"]').count() > 0 || await page.title().then((title) => title.startsWith('●')), true);
  assert.equal(existsSync(join(server.workspace, 'made.txt')), false);
  await page.reload();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.prose', { hasText: 'Made.' }).waitFor();
  assert.equal(readFileSync(join(server.workspace, 'made.txt'), 'utf8'), 'done\n');
  await page.locator('.tool[data-status="completed"]').waitFor();
  assert.deepEqual(page.failures, []);
});

test('an edit is shown as a difference; who denies may say why, and the model reads it', async (t) => {
  const { page, model, server } = await world(t);
  writeFileSync(join(server.workspace, 'a.txt'), 'one\ntwo\nthree\n');
  model.answers.push({ calls: [{ name: 'read', args: { path: 'a.txt' } }] }, { calls: [{ name: 'edit', args: { path: 'a.txt', old: 'two\n', new: 'zwei\ndrei\n' } }] }, { text: 'Then not.' });
  await say(page, 'Change it');
  await page.locator('.approval').waitFor();
  const lines = await page.locator('.diff .line').evaluateAll((all) => all.map((line) => [line.className, line.lastChild.textContent]));
  assert.deepEqual(lines, [['line removed', 'two'], ['line added', 'zwei'], ['line added', 'drei']]);
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.keyboard.type('Not in German');
  // Later than the page looks after the session once more: what is written stays.
  await page.waitForTimeout(700);
  await page.keyboard.press('Enter');
  await page.locator('.prose', { hasText: 'Then not.' }).waitFor();
  assert.equal(await page.locator('.tool').last().locator('.tool-outcome').innerText(), 'denied: Not in German');
  await page.reload();
  await until('after a reload, too', async () => (await page.locator('.tool').last().locator('.tool-outcome').innerText()) === 'denied: Not in German');
  assert.equal(readFileSync(join(server.workspace, 'a.txt'), 'utf8'), 'one\ntwo\nthree\n');
  assert.match(JSON.stringify(model.requests.at(-1).messages.at(-1)), /Not in German/);
});

test('a tool may be allowed for the session while the tab is open, and asks again when that is taken back', async (t) => {
  const { page, model, server } = await world(t);
  const call = (command) => ({ calls: [{ name: 'bash', args: { command } }] });
  model.answers.push(call('echo 1 >> made.txt'), call('echo 2 >> made.txt'), { text: 'Twice.' });
  await say(page, 'Twice');
  // The limited permission stands before the wide one.
  await page.getByRole('button', { name: 'Always allow exactly this command' }).waitFor();
  const always = page.getByRole('button', { name: 'Always allow bash' });
  const scope = page.locator(`#${await always.getAttribute('aria-describedby')}`);
  assert.equal(await scope.isVisible(), true);
  assert.match(await scope.innerText(), /every bash command, in this session/);
  await always.click();
  await page.locator('.prose', { hasText: 'Twice.' }).waitFor();
  assert.equal(readFileSync(join(server.workspace, 'made.txt'), 'utf8'), '1\n2\n');
  await page.locator('#allowed', { hasText: 'bash runs without asking' }).waitFor();
  model.answers.push({ calls: [{ name: 'edit', args: { path: 'made.txt', old: '1', new: '3' } }] }, { text: 'Edited.' });
  await say(page, 'Edit');
  await page.locator('.approval').waitFor();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.prose', { hasText: 'Edited.' }).waitFor();
  // The tab has it, not the page.
  await page.reload();
  await page.locator('#allowed', { hasText: 'bash runs without asking' }).waitFor();
  await page.getByRole('button', { name: 'Ask again before bash runs' }).click();
  assert.equal(await page.locator('#allowed').isVisible(), false);
  model.answers.push(call('echo 4 >> made.txt'), { text: 'Asked.' });
  await say(page, 'Once more');
  await page.locator('.approval').waitFor();
  assert.equal(readFileSync(join(server.workspace, 'made.txt'), 'utf8'), '3\n2\n');
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.locator('.prose', { hasText: 'Asked.' }).waitFor();
  assert.deepEqual(page.failures, []);
});

test('a failed call opens by itself, a good one does not; what was cut off can be had', async (t) => {
  const { page, model, server } = await world(t, { config: 'tools: { maxOutputChars: 2000 }' });
  writeFileSync(join(server.workspace, 'long.txt'), Array.from({ length: 500 }, (_, at) => `line ${at}`).join('\n'));
  model.answers.push({ text: 'Two at once.', calls: [{ name: 'read', args: { path: 'nope.txt' } }, { name: 'read', args: { path: 'long.txt' } }] });
  await say(page, 'Read');
  await page.locator('.tools.several').waitFor();
  await page.locator('.tool[data-status="completed"]').waitFor();
  const failed = page.locator('.tool[data-status="error"]');
  assert.equal(await failed.locator('.tool-line').getAttribute('aria-expanded'), 'true');
  const good = page.locator('.tool[data-status="completed"]');
  assert.equal(await good.locator('.tool-line').getAttribute('aria-expanded'), 'false');
  assert.match(await good.locator('.tool-outcome').innerText(), /of .* characters · rest kept/);
  await good.locator('.tool-line').click();
  await page.getByRole('button', { name: 'Show all of it' }).click();
  await until('the whole', async () => /line 250\b/.test(await good.locator('.output').innerText()));
});
