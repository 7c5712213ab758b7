import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, gate, until, world } from './world.mjs';

after(endBrowser);

const words = (number) => Array.from({ length: number }, (_, at) => `word${at}`).join(' ');

test('an answer streams, with a caret, and ends as it was said', async (t) => {
  const { page, model } = await world(t);
  const rest = gate();
  model.answers.push({ reasoning: 'First I think.', text: 'A **bold** start.\n\nThen `code`', hold: rest.closed });
  await say(page, 'Stream please');
  await page.locator('.caret').waitFor();
  await page.locator('.prose strong', { hasText: 'bold' }).waitFor();
  await page.locator('.tail code', { hasText: 'code' }).waitFor();
  assert.equal(await page.locator('.tail').innerText(), 'Then code', 'the open block has its form already');
  assert.equal(await page.locator('#stop').isVisible(), true);
  rest.open();
  await page.locator('.prose code', { hasText: 'code' }).waitFor();
  await page.locator('.caret').waitFor({ state: 'detached' });
  // The server's own markup takes the place of what was drawn meanwhile.
  await until('the whole answer', async () => (await conversation(page)).at(-1)?.[1] === 'A bold start.\n\nThen code');
  assert.deepEqual(await conversation(page), [['typed', 'Stream please'], ['model', 'A bold start.\n\nThen code']]);
  assert.equal(await page.locator('.reasoning:visible').getAttribute('open'), null, 'what was thought is folded');
  await page.locator('.reasoning:visible summary').click();
  await page.getByText('First I think.').waitFor();
  await until('the meter', async () => /counted by/.test(await page.locator('#meter-caption').innerText()));
  assert.match(await page.locator('#meter-caption').innerText(), /[\d.]+K \/ 32K · [\d.]+ % · counted by the model$/);
  assert.deepEqual(page.failures, []);
});

test('a reload in mid-stream loses nothing and doubles nothing', async (t) => {
  const { page, model } = await world(t);
  const rest = gate();
  const text = `${words(60)}\n\n${words(40)} 👍 end`;
  let sent = 0;
  model.answers.push({ text, piece: 7, delay: 8 }, () => { sent += 1; return { text: 'second', hold: rest.closed }; });
  await say(page, 'Tell me much');
  for (let reloads = 0; reloads < 3; reloads += 1) {
    await page.locator('.prose').first().waitFor();
    await page.waitForTimeout(150);
    await page.reload();
  }
  await until('the whole answer', async () => (await conversation(page)).at(-1)?.[1].endsWith('end'));
  const said = await conversation(page);
  assert.deepEqual(said.map(([kind]) => kind), ['typed', 'model']);
  assert.equal(said[1][1].replace(/\s+/g, ' '), text.replace(/\s+/g, ' '));
  await until('rest', async () => (await page.locator('#stop').isVisible()) === false);
  assert.equal(sent, 0, 'the model was asked once');
  rest.open();
  assert.deepEqual(page.failures, []);
});

test('the page comes back by itself after the server restarted, and says so meanwhile', async (t) => {
  const { page, model, server } = await world(t);
  await say(page, 'Before');
  await until('an answer', async () => (await conversation(page)).length === 2);
  // What is written of a run that a kill cuts off comes after what the page has asked for.
  await until('rest', async () => (await page.locator('#stop').isVisible()) === false);
  await page.locator('#input').fill('a draft that stays');
  const asked = [];
  page.on('request', (request) => { if (request.url().includes('/events?')) asked.push(Number(new URL(request.url()).searchParams.get('after'))); });
  await server.end('SIGKILL');
  await page.locator('#banner', { hasText: 'No connection' }).waitFor();
  assert.match(await page.locator('#banner').innerText(), /Longhaul has stopped, or is starting again\. Nothing is lost\. Start it with longhaul, as before\. This page then connects by itself\./);
  assert.equal((await conversation(page)).length, 2, 'what was seen is kept');
  await server.restart();
  await page.locator('#banner', { hasText: 'Connected again' }).waitFor({ timeout: 60_000 });
  assert.equal(await page.locator('#input').inputValue(), 'a draft that stays');
  const [{ lastSeq }] = (await server.api('GET', '/api/sessions')).sessions;
  assert.equal(asked.at(-1), lastSeq, 'it goes on from the last position');
  model.answers.push({ text: 'I am here.' });
  await say(page, 'After');
  await until('the next answer', async () => (await conversation(page)).length === 4);
  assert.deepEqual((await conversation(page)).map(([, text]) => text), ['Before', 'You said: Before', 'After', 'I am here.']);
  await page.locator('#banner').waitFor({ state: 'hidden' });
});

test('what an ending server refused comes back into the field, and its words go with the reconnect', async (t) => {
  const { page, server } = await world(t);
  await say(page, 'Before');
  await until('an answer', async () => (await conversation(page)).length === 2);
  const held = gate();
  await page.route('**/api/message', async (route) => {
    await held.closed;
    await route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify({ code: 'interrupted', detail: 'The server is shutting down.' }) });
  });
  await say(page, 'First');
  await say(page, 'Second');
  await page.locator('#input').fill('being written');
  held.open();
  await page.locator('#composer-said', { hasText: 'The server is shutting down' }).waitFor();
  assert.match(await page.locator('#composer-said').innerText(), /Start it again with longhaul, as before\. This page then connects by itself/);
  await until('both are back', async () => (await page.locator('#input').inputValue()) === 'First\n\nSecond\n\nbeing written');
  await page.keyboard.type('!');
  assert.match(await page.locator('#input').inputValue(), /being written!$/, 'the caret stays where it was');
  await page.locator('#input').fill('');
  await say(page, 'Third');
  await page.locator('#composer-said', { hasText: 'The server is shutting down' }).waitFor();
  await page.unroute('**/api/message');
  await server.end('SIGKILL');
  await page.locator('#banner', { hasText: 'No connection' }).waitFor();
  await server.restart();
  await page.locator('#banner', { hasText: 'Connected again' }).waitFor({ timeout: 60_000 });
  assert.equal(await page.locator('#composer-said').innerText(), '');
  assert.equal(await page.locator('#input').inputValue(), 'Third');
  await page.locator('#input').press('Enter');
  await until('it is sent', async () => (await conversation(page)).at(-1)?.[1] === 'You said: Third');
});

test('a server that dies in mid-answer leaves what it said, marked, and no caret', async (t) => {
  const { page, model, server } = await world(t);
  const rest = gate();
  model.answers.push({ text: 'Half of a sentence', piece: 100, hold: rest.closed });
  await say(page, 'Go');
  await page.locator('.tail', { hasText: 'Half of a sentence' }).waitFor();
  await until('it is stored', () => server.hasStored('Half of a sentence'));
  await server.end('SIGKILL');
  rest.open();
  await server.restart();
  await page.locator('.caret').waitFor({ state: 'detached', timeout: 60_000 });
  await page.locator('.cut', { hasText: 'Longhaul was stopped here' }).waitFor();
  await page.locator('.notice[data-tone="failure"]', { hasText: 'Longhaul was stopped while it worked' }).waitFor();
  assert.deepEqual((await conversation(page)).map(([, text]) => text), ['Go', 'Half of a sentence']);
  assert.equal(await page.locator('#stop').isVisible(), false);
  assert.equal(await page.getByText('connection to the model').count(), 0, 'the model was not to blame');
  await page.reload();
  await page.locator('.cut', { hasText: 'Longhaul was stopped here' }).waitFor();
  await page.locator('.notice[data-tone="failure"]', { hasText: 'Longhaul was stopped while it worked' }).waitFor();
  model.answers.push({ text: 'The whole sentence.' });
  await page.getByRole('button', { name: 'Try again' }).click();
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'The whole sentence.');
});

test('a wait for the model server counts down, outlives a reload, and ends when somebody says so', async (t) => {
  const { page, model } = await world(t);
  const busy = { status: 429, error: 'Too many requests.', retryAfter: 4 };
  model.answers.push(busy, { text: 'Here I am again.' });
  await say(page, 'Hello');
  const status = page.locator('#status');
  await page.locator('#status', { hasText: /The model server asks to wait · next try in \d s/ }).waitFor();
  await page.reload();
  await page.locator('#status', { hasText: /next try in \d s/ }).waitFor();
  await status.getByRole('button', { name: 'Try now' }).click();
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'Here I am again.');
  assert.equal(await status.isVisible(), false);
});

test('a failed call is retried in sight, and what fails for good says why', async (t) => {
  const { page, model } = await world(t);
  await say(page, 'Hello');
  await page.getByText('You said: Hello').first().waitFor();
  model.answers.push({ status: 503, error: 'The model is loading.' }, { text: 'Now it works.' });
  await say(page, 'Try');
  await page.locator('#status', { hasText: /The model server (does not answer|reports an error) · (next try in \d s|trying again)/ }).waitFor();
  await until('the answer', async () => (await conversation(page)).at(-1)?.[1] === 'Now it works.');
  model.answers.push({ status: 401, error: 'bad key' });
  await say(page, 'Again');
  await page.locator('.notice[data-tone="failure"]').waitFor();
  assert.match(await page.locator('.notice[data-tone="failure"]').innerText(), /kept/);
});
