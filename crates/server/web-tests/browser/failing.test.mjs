import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, until, world } from './world.mjs';

after(endBrowser);

const failures = (page) => page.locator('.notice[data-tone="failure"]').evaluateAll((all) => all.map((each) => each.innerText.replace(/\s+/g, ' ')));
const once = (text, words) => text.split(words).length - 1;

test('a failed run says why once, also after a reload, and goes on by its button', async (t) => {
  const { page, model } = await world(t);
  model.answers.push({ status: 401, error: 'The key is not known.' });
  await say(page, 'Hello');
  await page.locator('.notice[data-tone="failure"]').waitFor();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await page.waitForTimeout(500);
  for (const when of ['at once', 'after a reload']) {
    const said = await failures(page);
    assert.equal(said.length, 1, `${when}: ${said}`);
    assert.equal(once(await page.locator('#main').innerText(), 'The key is not known'), 1, when);
    assert.match(said[0], /kept/);
    await page.reload();
    await page.locator('.notice[data-tone="failure"]').waitFor();
    await page.waitForTimeout(500);
  }
  model.answers.push({ text: 'Now I answer.' });
  await page.getByRole('button', { name: 'Try again' }).click();
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'Now I answer.');
  assert.equal(model.requests.length, 2);
  assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0, 'what was mended offers nothing');
  assert.deepEqual((await conversation(page)).map(([, text]) => text), ['Hello', 'Now I answer.']);
  assert.deepEqual(page.failures, []);
});

test('a session that failed is marked in the list; when it goes well again, the failure is one quiet line', async (t) => {
  const { page, model } = await world(t);
  const mine = page.locator('.session').first();
  model.answers.push({ status: 401, error: 'The key is not known.' });
  await say(page, 'Hello');
  await until('its state', async () => (await mine.getAttribute('data-status')) === 'failed');
  assert.match(await mine.locator('.session-link').getAttribute('aria-label'), /failed/);
  const notice = page.locator('.notice');
  assert.match(await notice.innerText(), /did not accept the key[^]*The key is not known/);
  model.answers.push({ text: 'Now I answer.' });
  await page.getByRole('button', { name: 'Try again' }).click();
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'Now I answer.');
  await page.locator('.notice .settled summary').waitFor();
  assert.deepEqual(await failures(page), [], 'nothing is red any more');
  assert.equal(await page.locator('.settled').getByText('The key is not known').isVisible(), false);
  await page.locator('.settled summary').click();
  await page.locator('.settled').getByText('The key is not known').waitFor();
  await until('at rest', async () => (await mine.getAttribute('data-status')) === 'idle');
  await page.reload();
  await page.locator('.settled summary').click();
  await page.locator('.settled').getByText('The key is not known').waitFor();
  assert.deepEqual(page.failures, []);
});

test('an answer whose connection broke is one message, live and after a reload', async (t) => {
  const { page, model } = await world(t);
  // A pause lets the words arrive before the connection is cut.
  model.answers.push({ text: 'Half of the', delay: 300, cut: true }, { text: 'The whole answer.' });
  await say(page, 'Hello');
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'The whole answer.');
  await page.locator('#stop').waitFor({ state: 'hidden' });
  for (const when of ['live', 'after a reload']) {
    assert.deepEqual((await conversation(page)).map(([, text]) => text), ['Hello', 'The whole answer.'], when);
    const attempt = page.locator('.message .attempt');
    assert.match(await attempt.locator('summary').innerText(), /broke off after 3 words/, when);
    await attempt.locator('summary').click();
    await attempt.getByText('Half of the').waitFor();
    await page.reload();
    await page.locator('.message .attempt').waitFor();
  }
  assert.deepEqual(page.failures, []);
});

test('a model server that ends an answer early is named, in words', async (t) => {
  const { page, model } = await world(t);
  for (let tries = 0; tries < 8; tries += 1) model.answers.push({ text: 'Half of', early: true });
  await say(page, 'Hello');
  const notice = page.locator('.notice[data-tone="failure"]');
  await notice.waitFor({ timeout: 60_000 });
  const said = (await failures(page))[0];
  assert.match(said, new RegExp(`The model server at ${model.url.replace(/\/v1$/, '')} ended the answer early\\.`));
  assert.match(said, /log names the cause/);
  assert.doesNotMatch(await page.locator('#main').innerText(), /truncated-stream/);
  assert.deepEqual(page.failures, []);
});

test('/retry does the same; a turn without an answer stands apart from the next one', async (t) => {
  const { page, model } = await world(t);
  for (const text of ['First', 'Second']) {
    model.answers.push({ status: 401, error: 'No key.' });
    await say(page, text);
    await until('its end', async () => (await failures(page)).length > 0 && !(await page.locator('#stop').isVisible()));
    await until('its words', async () => (await conversation(page)).at(-1)[1] === text);
  }
  await page.reload();
  await page.locator('.notice .settled', { hasText: 'An attempt failed here; so did a later one' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  const rows = await page.locator('.rows > [data-key]').evaluateAll((all) => all.map((row) => (row.matches('.notice') ? 'notice' : row.querySelector('.speaker').innerText)));
  assert.deepEqual(rows, ['you', 'notice', 'you', 'notice']);
  model.answers.push({ text: 'Both, then.' });
  await say(page, '/retry');
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'Both, then.');
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await say(page, '/retry');
  await page.locator('#toast', { hasText: 'send a message to go on' }).waitFor();
  assert.deepEqual(page.failures, []);
});
