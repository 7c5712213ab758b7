import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openPage, say } from '../browser.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** The longest task that is allowed while an answer streams, on a machine that has time for it. */
const TASK_MS = 50;
/** How long a session may take to open, on such a machine. */
const OPEN_MS = 300;
/** Other programs share the machine: the best of so many tries counts. */
const TRIES = 4;
/** How much more than an empty session a long one may cost where the machine itself is slow. */
const SLACK = 1.5;

/** 2,000 messages: turns with prose, lists, code and tools. */
function history() {
  const messages = [];
  for (let turn = 0; messages.length < 2_000; turn += 1) {
    const call = { id: `t${turn}`, type: 'function', function: { name: 'read', arguments: `{"path":"file${turn}.rs"}` } };
    messages.push(
      { role: 'user', content: `Question ${turn}: what does file${turn}.rs do, and why?` },
      { role: 'assistant', content: `I look into file ${turn}.`, tool_calls: [call] },
      { role: 'tool', tool_call_id: `t${turn}`, content: `fn main() {\n    println!("${turn}");\n}` },
      { role: 'assistant', content: `It prints **${turn}**.\n\n- one\n- two\n\n\`\`\`rust\nfn f${turn}() { }\n\`\`\`\n\nThat is answer ${turn}.` },
    );
  }
  return messages;
}

const prose = Array.from({ length: 90 }, (_, at) => `Paragraph ${at} with **bold** and \`code\` in a sentence of some length that wraps.\n\n${at % 6 ? '' : '```rust\nlet x = 1;\n```\n\n'}`).join('');

/** Milliseconds until session `id` shows its `rows` newest messages, or more. */
async function timeToOpen(page, id, rows) {
  await page.evaluate(() => { location.hash = '#/'; });
  await page.locator('#empty').waitFor();
  return page.evaluate(({ hash, enough }) => new Promise((resolve) => {
    const begun = performance.now();
    location.hash = hash;
    const look = () => {
      const shown = document.querySelectorAll('.rows .message').length;
      if (shown >= enough && document.getElementById('loading').hidden) requestAnimationFrame(() => resolve(performance.now() - begun));
      else requestAnimationFrame(look);
    };
    look();
  }), { hash: `#/s/${id}`, enough: rows });
}

/** Milliseconds of the longest task while the open session streams `prose` and `end`. Tasks under 50 ms count as 0: the browser does not report them. */
async function longestTask(page, model, end) {
  model.answers.push({ text: `${prose}\n\n${end}`, piece: 24, delay: 4 });
  await page.evaluate(() => {
    window.longTasks = [0];
    window.taskWatch = new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration)));
    window.taskWatch.observe({ type: 'longtask' });
  });
  await say(page, `Write: ${end}`);
  await page.locator('.prose').getByText(end, { exact: true }).waitFor({ timeout: 60_000 });
  return page.evaluate(() => {
    window.taskWatch.disconnect();
    return Math.max(...window.longTasks);
  });
}

// On a loaded machine even an empty session has long tasks, so the empty one is measured beside the long one, try by try.
test('a session of 2,000 messages opens at once and streams without a long task', async (t) => {
  const { page, model, server } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().waitFor();
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  await server.api('GET', `/api/sessions/${id}/messages?limit=1`);
  await say(page, 'Hello');
  await page.locator('.prose', { hasText: 'You said: Hello' }).waitFor();
  const short = new URL(page.url()).hash.replace('#/s/', '');
  const opened = { long: [], short: [] };
  const longest = { long: [], short: [] };
  for (let tries = 0; tries < TRIES; tries += 1) {
    opened.long.push(await timeToOpen(page, id, 4));
    if (tries === 0) {
      const rows = await page.locator('.rows > [data-key]').count();
      assert.ok(rows < 120, `${rows} rows are in the document`);
      assert.match(await page.locator('.rows').innerText(), /That is answer 499/);
    }
    opened.short.push(await timeToOpen(page, short, 2));
  }
  for (let tries = 0; tries < TRIES && !(longest.long.at(-1) < TASK_MS); tries += 1) {
    // A long answer fills the page, so that few messages are drawn.
    await timeToOpen(page, id, 1);
    longest.long.push(await longestTask(page, model, `End of long try ${tries}.`));
    if (longest.long.at(-1) < TASK_MS) break;
    await timeToOpen(page, short, 1);
    longest.short.push(await longestTask(page, model, `End of short try ${tries}.`));
  }
  const list = (figures) => figures.map(Math.round).join(', ') || 'not measured';
  const figures = `opened in ${list(opened.long)} ms (empty session: ${list(opened.short)}), longest task ${list(longest.long)} ms (empty session: ${list(longest.short)})`;
  t.diagnostic(figures);
  assert.ok(Math.min(...longest.long) < Math.max(TASK_MS, SLACK * Math.min(...longest.short)), figures);
  assert.ok(Math.min(...opened.long) < Math.max(OPEN_MS, SLACK * Math.min(...opened.short)), figures);
  assert.deepEqual(page.failures, []);
});

test('every one of them can be reached, and reading up does not jump', async (t) => {
  const { page } = await world(t, { imported: history(), window: 1_000_000 });
  await page.locator('.session-link').first().click();
  await page.locator('.rows .message').first().waitFor();
  const scroller = page.locator('#scroller');
  for (let step = 0; step < 20; step += 1) {
    await until('rendered', async () => (await page.locator('.rows .block.plain').count()) === 0);
    const moved = await scroller.evaluate(async (each) => {
      const top = each.getBoundingClientRect().top;
      const row = [...each.querySelectorAll('.rows > [data-key]')].find((one) => one.getBoundingClientRect().top >= top);
      const before = row.getBoundingClientRect().top;
      each.scrollTop -= 400;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return row.getBoundingClientRect().top - before;
    });
    assert.ok(Math.abs(moved - 400) <= 2, `moved by ${moved} at step ${step}`);
  }
  await until('the first message', async () => {
    await scroller.evaluate((each) => { each.scrollTop = Math.max(0, each.scrollTop - 6_000); });
    return /Question 0:/.test(await page.locator('.rows').innerText());
  }, 40_000);
  await page.locator('#jump').click();
  await until('the end', async () => /That is answer 499/.test(await page.locator('.rows').innerText()));
  assert.deepEqual(page.failures, []);
});

test('a second window sees the same while it streams', async (t) => {
  const { page, model, server } = await world(t);
  await say(page, 'First');
  await page.getByText('You said: First').first().waitFor();
  const other = await openPage(page.context().browser(), server, { path: `/${new URL(page.url()).hash}` });
  t.after(() => other.context().close());
  await other.locator('.prose', { hasText: 'You said: First' }).waitFor();
  model.answers.push({ text: 'Seen by **both** of us.', delay: 15, piece: 3 });
  await say(page, 'Again');
  for (const each of [page, other]) await each.locator('.prose', { hasText: 'Seen by both of us.' }).waitFor();
  assert.deepEqual([...page.failures, ...other.failures], []);
});
