import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** A red square of 2 by 2. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==';

test('without its cookie the page asks for the token, and takes only the right one', async (t) => {
  const { page, server } = await world(t);
  await page.context().clearCookies();
  await page.goto(`${server.base}/#opening-link-spent`);
  await page.reload();
  await page.locator('#login', { hasText: 'used before' }).waitFor();
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await page.locator('#login-said', { hasText: 'not the token' }).waitFor();
  await page.locator('#login-token').fill(server.token);
  await page.keyboard.press('Enter');
  await page.locator('#empty .answers').waitFor();
  await page.context().clearCookies();
  await say(page, 'Anybody there?');
  await page.locator('#login').waitFor();
  assert.equal(await page.locator('#input').inputValue(), 'Anybody there?', 'what was written is kept');
});

test('a link to a session leads there once the token is given', async (t) => {
  const { page, model, server } = await world(t);
  model.answers.push({ text: 'Hello.' });
  await say(page, 'Hi');
  await page.locator('.prose', { hasText: 'Hello.' }).waitFor();
  const link = page.url();
  await page.context().clearCookies();
  await page.reload();
  await page.locator('#login-token').fill(server.token);
  await page.keyboard.press('Enter');
  await page.locator('.prose', { hasText: 'Hello.' }).waitFor();
  assert.equal(page.url(), link);
});

test('a picture that is pasted goes with the message and is shown from the server', async (t) => {
  const { page, model } = await world(t);
  await page.locator('#input').focus();
  await page.evaluate((data) => {
    const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
    const clip = new DataTransfer();
    clip.items.add(new File([bytes], 'square.png', { type: 'image/png' }));
    document.getElementById('input').dispatchEvent(new ClipboardEvent('paste', { clipboardData: clip, bubbles: true, cancelable: true }));
  }, PNG);
  await page.locator('#attachments .chip', { hasText: 'square.png' }).waitFor();
  await say(page, 'What is this?');
  const picture = page.locator('.message[data-kind="typed"] img');
  await picture.waitFor();
  await until('it is loaded', () => picture.evaluate((image) => image.complete && image.naturalWidth === 2));
  assert.match(await picture.getAttribute('src'), /^\/api\/sessions\/[^/]+\/blobs\/[0-9a-f]{64}$/);
  assert.equal(await page.locator('#attachments').isVisible(), false);
  assert.ok(model.requests.length > 0);
  assert.deepEqual(page.failures, []);
});

test('a session that is gone says so; the list finds sessions by their words', async (t) => {
  const { page, server } = await world(t);
  await page.goto(`${server.base}/#/s/nonesuch`);
  await page.locator('#failed', { hasText: 'no such session' }).waitFor();
  await page.goto(`${server.base}/#/`);
  for (const text of ['About lighthouses', 'About tides']) {
    await page.locator('#new-session').click();
    await say(page, text);
    await until('its answer', async () => (await conversation(page)).at(-1)?.[1] === `You said: ${text}`);
  }
  await until('both', async () => (await page.locator('.session').count()) === 2);
  await page.locator('#session-search').fill('lighthouses');
  await until('one is left', async () => (await page.locator('.session').count()) === 1);
  assert.equal(await page.locator('.session-title').innerText(), 'About lighthouses');
  await page.locator('#session-search').fill('nothing of the kind');
  await page.locator('#sessions-said', { hasText: 'Nothing was found' }).waitFor();
  assert.deepEqual(page.failures, []);
});

test('what waits for a person is seen in the list from another session', async (t) => {
  const { page, model } = await world(t);
  model.answers.push({ text: 'May I?', calls: [{ name: 'bash', args: { command: 'true' } }] });
  await say(page, 'Ask me');
  await page.locator('.approval').waitFor();
  await page.locator('#new-session').click();
  await page.locator('.session[data-status="waiting_approval"]').waitFor();
  assert.match(await page.locator('.session-link').getAttribute('aria-label'), /waiting for you/);
  await page.locator('.session-link').click();
  await page.locator('.approval').waitFor();
});

test('a session that does not open takes no words, and opens by itself once the server answers', async (t) => {
  const { page, server } = await world(t);
  await say(page, 'Before');
  await until('an answer', async () => (await conversation(page)).length === 2);
  const address = new URL(page.url()).hash;
  await page.locator('#new-session').click();
  await page.locator('#empty .answers').waitFor();
  await server.end('SIGKILL');
  await page.evaluate((hash) => { location.hash = hash; }, address);
  await page.locator('#failed', { hasText: 'Everything that was said is kept' }).waitFor();
  assert.equal(await page.locator('#composer').isVisible(), false, 'what is written now would begin another session');
  assert.equal(await page.locator('#meter').isVisible(), false);
  assert.equal(await page.locator('#title').innerText(), 'Before');
  await server.restart();
  await until('it is open', async () => (await conversation(page)).length === 2);
  await page.locator('#failed').waitFor({ state: 'hidden' });
  assert.equal(await page.locator('#composer').isVisible(), true);
  assert.deepEqual((await server.api('GET', '/api/sessions')).sessions.length, 1);
});

test('an empty page says who answers and how others get in', async (t) => {
  const { page, server } = await world(t);
  await page.locator('.answers', { hasText: 'calm-30b answers' }).waitFor();
  await page.getByText('A client of OpenAI or Anthropic', { exact: true }).click();
  assert.match(await page.locator('.pointing pre:visible').innerText(), new RegExp(`OPENAI_BASE_URL=${server.base}/v1 `));
  await page.getByText('A script', { exact: true }).click();
  assert.match(await page.locator('.pointing pre:visible').innerText(), new RegExp(`${server.base}/api/message`));
  await page.getByText('An editor', { exact: true }).click();
  assert.match(await page.locator('.pointing pre:visible').innerText(), /"args": \["acp"\]/);
  await page.getByRole('button', { name: 'Find out why the tests fail and fix it.' }).click();
  assert.equal(await page.locator('#input').inputValue(), 'Find out why the tests fail and fix it.');
});
