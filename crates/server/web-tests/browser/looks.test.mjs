import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** Texts whose contrast with what lies behind them is too small, as `ratio text`. Computed from the styles. */
function faint(page) {
  return page.evaluate(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const seen = new Map();
    const rgba = (colour) => {
      if (!seen.has(colour)) {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        seen.set(colour, [r, g, b, a / 255]);
      }
      return seen.get(colour);
    };
    const over = ([r, g, b, a], under) => [r * a + under[0] * (1 - a), g * a + under[1] * (1 - a), b * a + under[2] * (1 - a), 1];
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((each) => (each / 255 <= 0.04045 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
      const layers = [];
      for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
      return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
    };
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || element.closest('.unseen, noscript, script, [hidden]') || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      const under = behind(element);
      const [one, other] = [light(over(rgba(getComputedStyle(element).color), under)), light(under)];
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (ratio < 4.5) found.add(`${ratio.toFixed(2)} ${node.data.trim().slice(0, 40)} (${element.className || element.tagName})`);
    }
    return [...found];
  });
}

test('text can be read: at least 4.5 to 1, light and dark, in every state', async (t) => {
  const { page, model, server } = await world(t, { window: 5_500 });
  writeFileSync(join(server.workspace, 'a.txt'), Array.from({ length: 300 }, (_, at) => `line ${at} of the file with some words in it`).join('\n'));
  const both = async (state) => {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(200);
      await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)));
      assert.deepEqual(await faint(page), [], `${state}, ${colorScheme}`);
    }
  };
  await page.locator('.answers').waitFor();
  await both('empty');
  await say(page, 'Hello');
  await page.locator('.prose', { hasText: 'You said: Hello' }).waitFor();
  const code = ['rust', 'python', 'json', 'diff', 'html'].map((language) => `\`\`\`${language}\n// x\nfn main() { let a = "b" + 1; } # c\n+ added\n- removed\n<a href="x">y</a> {"a": true}\n\`\`\``).join('\n\n');
  for (let at = 0; at < 6; at += 1) model.answers.push({ reasoning: 'Thinking', text: `Part ${at}`, calls: [{ name: 'read', args: { path: at === 3 ? 'nope' : 'a.txt', offset: at * 20 + 1, limit: 60 } }] });
  model.answers.push({ text: `# Title\n\n> quote\n\n[link](https://a.example) ![p](https://a.example/p.png)\n\n${code}\n\n| a | b |\n|--|--|\n| 1 | 2 |` });
  await say(page, 'Read it all');
  await page.locator('#toast').waitFor();
  await page.locator('.prose h1').waitFor();
  await until('rendered', async () => (await page.locator('.block.plain').count()) === 0);
  await both('conversation with a toast');
  await page.locator('button.fold-line').first().click();
  await both('an opened fold');
  await page.locator('#meter').click();
  await page.locator('.report-row').first().waitFor();
  await page.locator('.report-row summary').first().click();
  await both('the panel');
  await page.keyboard.press('Escape');
  model.answers.push({ text: 'Edit', calls: [{ name: 'edit', args: { path: 'a.txt', old: 'line 1\n', new: 'line one\n' } }] });
  await say(page, 'Edit it');
  await page.locator('.approval').waitFor();
  await say(page, 'wait');
  await page.locator('#queue .chip').waitFor();
  await both('a question and a queue');
  await page.locator('#settings-open').click();
  await both('settings');
  await page.keyboard.press('Escape');
  await page.locator('#input').fill('/');
  await both('commands');
  await page.locator('#input').fill('');
  await page.locator('#stop').click();
  await page.locator('#queue .held').waitFor();
  await both('what waits after a stop');
  model.answers.push({ status: 401, error: 'No `key`.' });
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await both('a failed run');
  await server.end('SIGKILL');
  await page.locator('#banner').waitFor();
  await both('no connection');
});

test('360 pixels are enough: nothing sticks out, the list is a drawer', async (t) => {
  const { page, model } = await world(t, { page: { viewport: { width: 360, height: 640 } } });
  const sticksOut = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(await sticksOut(), 0);
  await page.locator('#model').waitFor();
  const [title, chip] = await Promise.all(['#title', '#model'].map((each) => page.locator(each).boundingBox()));
  const overlap = title.x < chip.x + chip.width && chip.x < title.x + title.width && title.y < chip.y + chip.height && chip.y < title.y + title.height;
  assert.equal(overlap, false, JSON.stringify({ title, chip }));
  model.answers.push({ text: `${'Verylongword'.repeat(20)}\n\n\`\`\`\n${'code '.repeat(60)}\n\`\`\`\n\n| ${'a | '.repeat(20)}\n|${'--|'.repeat(20)}\n| ${'1 | '.repeat(20)}`, calls: [{ name: 'bash', args: { command: 'echo '.repeat(80) } }] });
  await say(page, 'Wide things please');
  await page.locator('.approval').waitFor();
  await until('rendered', async () => (await page.locator('.block.plain').count()) === 0);
  assert.equal(await sticksOut(), 0);
  const wide = await page.locator('.rows .message').evaluateAll((rows) => rows.filter((row) => row.scrollWidth > row.clientWidth + 1).map((row) => row.innerText.slice(0, 60)));
  assert.deepEqual(wide, []);
  assert.equal(await page.locator('#sessions').isVisible(), false);
  await page.locator('#drawer-toggle').click();
  await page.locator('.session-link').first().waitFor();
  await page.keyboard.press('Escape');
  await until('the drawer is closed', async () => !(await page.locator('#sessions').isVisible()));
  await page.locator('#meter').click();
  await page.locator('.report-row').first().waitFor();
  assert.equal(await sticksOut(), 0);
  assert.equal(await page.locator('#panel').evaluate((panel) => panel.getBoundingClientRect().width), 360);
});

test('the theme can be chosen and is kept; those who want no motion have none', async (t) => {
  const { page } = await world(t, { page: { colorScheme: 'light', reducedMotion: 'reduce' } });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.locator('#settings-open').click();
  await page.locator('#theme-choice').selectOption('dark');
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await page.locator('#empty').waitFor();
  assert.equal(await ground(), dark);
  await say(page, 'x');
  await page.locator('.prose', { hasText: 'You said' }).waitFor();
  const moving = await page.evaluate(() => document.getAnimations().filter((each) => each.effect.getComputedTiming().duration > 1).length);
  assert.equal(moving, 0);
});

test('the first click on the theme is seen, and the next goes back', async (t) => {
  for (const colorScheme of ['light', 'dark']) {
    const { page } = await world(t, { page: { colorScheme } });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [before, button] = [await ground(), page.getByRole('button', { name: 'Light or dark' })];
    await button.click();
    const other = await ground();
    assert.notEqual(other, before, colorScheme);
    await button.click();
    assert.equal(await ground(), before, colorScheme);
  }
});

test('a wide table is scrolled and keeps its words whole; the copy button stands beside the text', async (t) => {
  const { page, model } = await world(t, { page: { viewport: { width: 360, height: 640 } } });
  await page.getByText('A script', { exact: true }).click();
  const beside = () => page.locator('.code-frame:visible').evaluateAll((all) => all.map((frame) => {
    const [pre, copy] = [frame.querySelector('pre'), frame.querySelector('.copy')].map((each) => each.getBoundingClientRect());
    return copy.width > 0 && copy.left >= pre.right - 0.5 && copy.right <= frame.getBoundingClientRect().right;
  }));
  assert.deepEqual(await beside(), [true]);
  const names = ['component', 'measurement', 'configuration', 'description', 'responsible'];
  model.answers.push({ text: `| ${names.join(' | ')} |\n|${'--|'.repeat(names.length)}\n| ${names.join(' | ')} |\n\n\`\`\`\n${'a long line of code '.repeat(8)}\n\`\`\`` });
  await say(page, 'A table');
  const table = page.locator('.block table');
  await table.waitFor();
  await page.locator('.prose .code-frame').waitFor();
  const seen = await table.evaluate((each) => ({
    scrolls: each.scrollWidth > each.clientWidth, inside: each.getBoundingClientRect().right <= innerWidth,
    lines: Math.max(...[...each.querySelectorAll('td')].map((cell) => cell.getBoundingClientRect().height)),
  }));
  assert.ok(seen.scrolls && seen.inside, JSON.stringify(seen));
  assert.ok(seen.lines < 40, `a word has one line: ${seen.lines} px`);
  assert.deepEqual(await beside(), [true]);
  assert.deepEqual(page.failures, []);
});
