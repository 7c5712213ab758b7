import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { conversation, endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** Tab until something of that name has the focus; whatever has it on the way must be seen to have it, and be named. */
async function tabTo(page, name, key = 'Tab') {
  for (let steps = 0; steps < 80; steps += 1) {
    await page.keyboard.press(key);
    const focus = await page.evaluate(() => {
      const it = document.activeElement;
      const style = getComputedStyle(it);
      const box = it.closest('.composer') ? getComputedStyle(it.closest('.composer')) : style;
      const label = it.getAttribute('aria-label') || it.innerText || it.getAttribute('placeholder') || document.querySelector(`label[for="${it.id}"]`)?.innerText || '';
      const isSeen = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) || box.boxShadow !== 'none';
      return { label: label.trim(), isSeen, tag: it.tagName, id: it.id };
    });
    if (focus.tag === 'BODY') continue;
    assert.ok(focus.isSeen, `the focus on ${focus.tag} ${focus.id} “${focus.label.slice(0, 40)}” is not to be seen`);
    assert.ok(focus.label, `${focus.tag} ${focus.id} has no name`);
    if (name.test(focus.label)) return;
  }
  throw new Error(`${name} cannot be reached`);
}

test('everything can be done by keys alone', async (t) => {
  const { page, model } = await world(t);
  await page.locator('#empty').waitFor();
  model.answers.push({ text: 'May I?', calls: [{ name: 'bash', args: { command: 'echo yes' } }] }, { text: 'It said yes.' });
  await page.keyboard.type('First line');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('second line');
  await page.keyboard.press('Enter');
  await page.locator('.approval').waitFor();
  assert.deepEqual((await conversation(page))[0], ['typed', 'First line\nsecond line']);
  await tabTo(page, /^Allow$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('.prose', { hasText: 'It said yes.' }).waitFor();

  await tabTo(page, /bash/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('.output', { hasText: 'yes' }).waitFor();

  await page.keyboard.press('m');
  await page.locator('#panel').waitFor();
  await tabTo(page, /^Context in detail$/);
  await page.keyboard.press('Escape');
  await page.locator('#panel').waitFor({ state: 'hidden' });

  await page.keyboard.press('?');
  await page.locator('#help').waitFor();
  assert.match(await page.locator('#help').innerText(), /Shift \+ Enter/);
  assert.match(await page.locator('#help').innerText(), /Esc\s+Close what has the focus .*; else stop the agent/);
  await page.keyboard.press('Escape');
  await page.keyboard.press(',');
  await page.locator('#settings').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('#settings').waitFor({ state: 'hidden' });

  await page.keyboard.press('/');
  await page.keyboard.type('/re');
  await page.locator('#completion li[aria-selected="true"]', { hasText: '/rename' }).waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.type('By keys alone');
  await page.keyboard.press('Enter');
  await until('the title', async () => (await page.locator('#title').innerText()) === 'By keys alone');
  await page.keyboard.type('/nonsense');
  await page.keyboard.press('Enter');
  await page.locator('#composer-said', { hasText: 'no command /nonsense' }).waitFor();
  await page.locator('#input').fill('');

  await tabTo(page, /^New session$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('#empty').waitFor();
  await page.keyboard.press('Alt+ArrowDown');
  await until('the other session', async () => (await conversation(page)).length === 3);
  await tabTo(page, /^Delete$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('dialog', { hasText: 'Delete “By keys alone”?' }).waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.session').count(), 1, 'nothing was deleted yet');
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  await tabTo(page, /^Delete for good$/);
  await page.keyboard.press('Enter');
  await until('none is left', async () => (await page.locator('.session').count()) === 0);
  assert.deepEqual(page.failures, []);
});

const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.innerText || document.activeElement.tagName);

test('a question cannot be lost by keys: its line and Review lead to the answer, and the answer to the field', async (t) => {
  const { page, model, server } = await world(t);
  const ask = (number) => model.answers.push({ text: `May I ${number}?`, calls: [{ name: 'bash', args: { command: `echo ${number}` } }] });
  ask('one');
  await page.locator('#input').fill('Go');
  await page.keyboard.press('Enter');
  await page.locator('.approval').waitFor();
  await tabTo(page, /^Review$/, 'Shift+Tab');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'Allow');
  const line = page.locator('.tool-line');
  await line.focus();
  await page.keyboard.press('Enter');
  assert.equal(await line.getAttribute('aria-expanded'), 'true');
  assert.equal(await focused(page), 'Allow');
  await page.locator('#input').focus();
  await page.keyboard.press('Alt+r');
  assert.equal(await focused(page), 'Allow');
  ask('two');
  await page.keyboard.press('Enter');
  await page.locator('pre.command', { hasText: 'echo two' }).waitFor();
  assert.equal(await focused(page), 'input', 'after Allow');

  await page.keyboard.press('Alt+r');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.type('Not this');
  ask('three');
  await page.keyboard.press('Enter');
  await page.locator('pre.command', { hasText: 'echo three' }).waitFor();
  assert.equal(await focused(page), 'input', 'after Deny');

  await page.keyboard.press('Alt+r');
  await page.keyboard.press('Escape');
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await until('the field has it after Esc', async () => (await focused(page)) === 'input');

  ask('four');
  await page.keyboard.type('Once more');
  await page.keyboard.press('Enter');
  await page.locator('pre.command', { hasText: 'echo four' }).waitFor();
  await page.locator('#stop').focus();
  await page.keyboard.press('Enter');
  await page.locator('#stop').waitFor({ state: 'hidden' });
  await until('the field has it after Stop', async () => (await focused(page)) === 'input');
  await page.keyboard.press('Alt+r');
  assert.equal(await focused(page), 'input', 'nothing waits');

  ask('five');
  await page.keyboard.type('And again');
  await page.keyboard.press('Enter');
  await page.locator('pre.command', { hasText: 'echo five' }).waitFor();
  await page.locator('#status-review').focus();
  await server.api('POST', `/api/sessions/${new URL(page.url()).hash.split('/').at(-1)}/cancel`, {});
  await page.locator('#status-review').waitFor({ state: 'hidden' });
  assert.equal(await focused(page), 'input', 'answered from elsewhere');
  assert.deepEqual(page.failures, []);
});

test('news is told to those who listen: whole, politely, and not the stream itself', async (t) => {
  const { page, model } = await world(t);
  await page.evaluate(() => {
    window.told = [];
    new MutationObserver(() => window.told.push(document.getElementById('said').textContent)).observe(document.getElementById('said'), { childList: true, characterData: true, subtree: true });
  });
  model.answers.push({ text: 'Word by word by word it comes.', piece: 2, delay: 10 });
  await page.locator('#input').fill('Speak');
  await page.keyboard.press('Enter');
  await until('the end is told', () => page.evaluate(() => window.told.some((text) => text.includes('The agent answered. Word by word by word it comes.'))));
  assert.ok((await page.evaluate(() => window.told.length)) <= 3);
  const live = await page.evaluate(() => [...document.querySelectorAll('[aria-live], [role="log"], [role="status"], [role="alert"]')].filter((each) => each.contains(document.querySelector('.rows'))).length);
  assert.equal(live, 0, 'the conversation itself is no live region');
  const marks = await page.evaluate(() => ['main', 'nav', 'header', 'footer', 'h1'].filter((tag) => !document.querySelector(tag)));
  assert.deepEqual(marks, []);
});
