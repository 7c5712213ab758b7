import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { conversation, endBrowser, gate, until, world } from './world.mjs';

after(endBrowser);

async function grown(t, options) {
  const it = await world(t, { window: 9_000, ...options });
  writeFileSync(join(it.server.workspace, 'lexer.rs'), Array.from({ length: 300 }, (_, at) => `    let token_${at} = scan(${at});`).join('\n'));
  for (let at = 0; at < 4; at += 1) it.model.answers.push({ text: `Part ${at}.`, calls: [{ name: 'read', args: { path: 'lexer.rs', offset: at * 40 + 1, limit: 40 } }] }, { text: `Read part ${at}.` });
  for (let at = 0; at < 4; at += 1) {
    await say(it.page, `Read part ${at}`);
    await it.page.getByText(`Read part ${at}.`, { exact: true }).waitFor();
    await until('rest', async () => !(await it.page.locator('#stop').isVisible()));
  }
  // The page may show the end of a run a moment before the server has noted it.
  await until('rest at the server', async () => (await it.server.api('GET', '/api/sessions')).sessions.every((each) => each.status === 'idle'));
  return it;
}

test('compact and undo: told, folded, both sides shown, brought back', async (t) => {
  const { page } = await grown(t);
  const before = await conversation(page);
  await say(page, '/compact keep the names of the tokens');
  const toast = page.locator('#toast');
  await toast.getByText(/Context compacted: [\d.K]+ → [\d.K]+ tokens/).waitFor();
  assert.match(await toast.innerText(), /Because you asked for it/);
  assert.match(await toast.innerText(), /in the window/);
  const fold = page.locator('.fold').first();
  await fold.getByText(/compacted \d+ messages/).waitFor();
  assert.ok((await conversation(page)).length < before.length, 'what was compacted is folded');
  await fold.locator('button.fold-line').click();
  await fold.getByText('What the model sees').waitFor();
  await until('the summary', async () => /SUMMARY/.test(await fold.locator('.side').first().innerText()));
  assert.match(await fold.locator('.side').last().innerText(), /Read part 0/);
  assert.match(await fold.locator('.fold-facts').innerText(), /Why\./);

  await page.reload();
  await page.locator('.fold').first().getByText(/compacted \d+ messages/).waitFor();
  assert.equal(await toast.isVisible(), false, 'what is old is no news');
  await page.locator('.fold').first().getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The original messages are back in the window').waitFor();
  await until('the original', async () => (await conversation(page)).length === before.length);
  assert.deepEqual(await conversation(page), before);
  assert.deepEqual(page.failures, []);
});

test('the toast undoes it too, and the panel shows how it came about', async (t) => {
  const { page } = await grown(t);
  await say(page, '/compact');
  await page.locator('#toast').getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The original messages are back in the window').waitFor();
  await page.locator('#meter').click();
  await page.locator('.chart svg').waitFor();
  assert.equal(await page.locator('.chart .mark').count() > 0, true);
  assert.equal(await page.locator('.chart .bar').count() > 8, true);
  const rows = await page.locator('.report-row').evaluateAll((all) => all.map((row) => row.dataset.row));
  for (const label of ['Total', 'System prompt', 'Tools · builtin', 'Messages', 'Reserved for the answer', 'Free', 'Window']) assert.ok(rows.includes(label), label);
  await page.locator('.report-row').first().locator('summary').click();
  await page.getByText('What the next request will have as input').waitFor();
  await page.locator('.estimates td').first().waitFor();
  // In one look: between two the caption may have become shorter, and the bar longer.
  const { parts, bar } = await page.locator('#meter-bar').evaluate((each) => ({
    parts: [...each.querySelectorAll('.part')].map((part) => part.getBoundingClientRect().width), bar: each.getBoundingClientRect().width,
  }));
  assert.ok(Math.abs(parts.reduce((sum, width) => sum + width, 0) - bar) < 12, 'the parts fill the bar');
  assert.match(await page.locator('.panel-trigger').innerText(), /^Compacts at [\d.]+K: strategy \S+, window [\d.]+K .* kept for the answer/);
});

test('what happens while somebody reads above does not move it', async (t) => {
  const { page, model } = await grown(t);
  for (let at = 0; at < 6; at += 1) model.answers.push({ text: `${'A long answer that fills lines. '.repeat(60)}\n\nEnd ${at}` });
  for (let at = 0; at < 3; at += 1) {
    await say(page, `More ${at}`);
    await page.getByText(`End ${at}`, { exact: true }).waitFor();
  }
  await page.locator('#scroller').hover();
  await page.mouse.wheel(0, -900);
  await page.locator('#jump').waitFor();
  const first = () => page.evaluate(() => {
    const top = document.getElementById('scroller').getBoundingClientRect().top;
    const row = [...document.querySelectorAll('.rows > [data-key]')].find((each) => each.getBoundingClientRect().bottom > top);
    return [row.dataset.key, Math.round(row.getBoundingClientRect().top - top)];
  });
  const place = await first();
  await page.locator('#input').evaluate((input) => { input.value = '/compact'; input.dispatchEvent(new Event('input')); });
  await page.locator('#composer').evaluate((form) => form.requestSubmit());
  await page.locator('#toast').getByText(/Context compacted/).waitFor();
  await page.waitForTimeout(500);
  const now = await first();
  assert.equal(now[0], place[0]);
  assert.ok(Math.abs(now[1] - place[1]) <= 2, `${place} -> ${now}`);
});

test('a pruned result is marked where it stands, the row of the prune leads to it, and an undo takes the marks away', async (t) => {
  const config = 'context: { compression: { strategy: proactive-threshold, trigger: { type: threshold, percentage: 0.6 }, options: { pruneProtectTokens: 1500, pruneMinimumTokens: 500 } } }';
  const { page, model, server } = await world(t, { window: 12_000, config });
  writeFileSync(join(server.workspace, 'lexer.rs'), Array.from({ length: 300 }, (_, at) => `    line ${at} of the lexer with some words in it`).join('\n'));
  for (let at = 0; at < 6; at += 1) model.answers.push({ text: `Part ${at}.`, calls: [{ name: 'read', args: { path: 'lexer.rs', offset: at * 30 + 1, limit: 100 } }] });
  await say(page, 'Read it');
  const prune = page.locator('.prune').first();
  await prune.getByText(/pruned \d old tool results/).waitFor();
  await until('rest', async () => !(await page.locator('#stop').isVisible()));
  const marks = () => page.locator('.tool-outcome', { hasText: '· pruned' }).count();
  await until('the marks', async () => (await marks()) >= 2);
  await prune.locator('button.fold-line').click();
  await prune.locator('.pruned .link').first().click();
  const line = page.locator('.tool-line').first();
  await line.click();
  await page.getByText('The model no longer sees this output').waitFor();
  assert.match(await page.locator('.output').first().innerText(), /line 0 of the lexer/);
  const before = await marks();
  await prune.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The pruned tool results are back').waitFor();
  await until('fewer marks', async () => (await marks()) < before);
  assert.deepEqual(page.failures, []);
});

test('while it is compacted the meter pulses, the field says that messages wait, and they do', async (t) => {
  const { page, model } = await grown(t);
  const rest = gate();
  model.answers.push({ forSummary: true, text: 'A summary.', hold: rest.closed });
  await say(page, '/compact');
  await page.locator('.meter.compacting').waitFor();
  await page.locator('#status', { hasText: 'Compacting' }).waitFor();
  await until('the field', async () => (await page.locator('#input').getAttribute('placeholder')) === 'Message will be queued...');
  await say(page, 'And then this');
  await page.locator('#queue .chip', { hasText: 'And then this' }).waitFor();
  rest.open();
  await page.locator('#toast').getByText(/Context compacted/).waitFor();
  await until('its answer', async () => /And then this/.test((await conversation(page)).at(-1)?.[1] ?? ''));
  await until('a quiet meter', async () => (await page.locator('.meter.compacting').count()) === 0);
  assert.deepEqual(page.failures, []);
});

test('an undo is offered only where there is room for the original, and a refusal says why', async (t) => {
  const { page, server, model } = await grown(t);
  await say(page, '/compact');
  const toast = page.locator('#toast');
  await toast.getByRole('button', { name: 'Undo' }).waitFor();
  const fold = page.locator('.fold').first();
  await fold.getByRole('button', { name: 'Undo' }).waitFor();
  // Between the look and the click somebody else was faster.
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  const [edit] = (await server.api('GET', `/api/sessions/${id}/compactions`)).compactions;
  await page.route('**/undo', (route) => route.fulfill({
    status: 409, contentType: 'application/problem+json',
    body: JSON.stringify({ code: 'context-overflow', detail: 'The view would have 9100 tokens; 7500 are usable.', tokens: 9_100, usable: 7_500 }),
  }));
  await fold.getByRole('button', { name: 'Undo' }).click();
  await fold.getByText('It would fill 9.1K tokens, and 7.5K can be used.').waitFor();
  await page.unroute('**/undo');
  // With new words in the window the original fits no more.
  const missing = (await server.api('GET', `/api/sessions/${id}/context`)).thresholds.find(({ name }) => name === 'usable').tokens - edit.originalTokens;
  // The numbers keep the text from being one passage without end, which stops a run.
  const text = Array.from({ length: Math.ceil(missing / 100) }, (_, at) => `${at} ${'word '.repeat(100)}`).join('');
  model.answers.push({ text, piece: 4_000 });
  await say(page, 'Say much');
  await page.locator('.prose', { hasText: 'word word' }).waitFor();
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await page.locator('#scroller').evaluate((each) => { each.scrollTop = 0; });
  await fold.getByText('no room to undo').waitFor();
  assert.equal(await fold.getByRole('button', { name: 'Undo' }).count(), 0);
  await assert.rejects(server.api('POST', `/api/sessions/${id}/compactions/${edit.id}/undo`, {}), /409/, 'the server says the same');
  await say(page, '/undo');
  await page.locator('#composer-said', { hasText: 'There is no room to undo it' }).waitFor();
  assert.equal(await page.locator('[data-command="undo"]').evaluate((each) => each.disabled), true);
  assert.deepEqual(page.failures.filter((text) => !/409/.test(text)), []);
});

test('what brought back the original may be compacted again, in words that say what the button does', async (t) => {
  const { page, server } = await grown(t);
  await say(page, '/compact');
  await page.locator('.fold').first().getByRole('button', { name: 'Undo' }).click();
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  await page.getByRole('button', { name: 'Allow compacting again' }).click();
  await until('it is released', async () => (await server.api('GET', `/api/sessions/${id}/compactions`)).compactions.at(-1).released);
  await page.getByRole('button', { name: 'Allow compacting again' }).waitFor({ state: 'detached' });
  assert.deepEqual(page.failures, []);
});
