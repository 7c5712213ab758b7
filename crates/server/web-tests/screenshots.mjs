// Pictures of the page in its states: node screenshots.mjs BINARY FOLDER
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, openPage, say } from './browser.mjs';
import { startModel } from './model.mjs';
import { startServer } from './server.mjs';
import { ANSWER, LEXER, call } from './story.mjs';

const [binary, folder] = process.argv.slice(2);
if (!binary || !folder) throw new Error('node screenshots.mjs BINARY FOLDER');
mkdirSync(folder, { recursive: true });

const model = await startModel({ models: ['calm-30b', 'calm-70b', 'swift-8b'] });
const server = await startServer(binary, { modelUrl: model.url, window: 9_500 });
writeFileSync(join(server.workspace, 'lexer.rs'), LEXER);
const browser = await launch();
const page = await openPage(browser, server, { deviceScaleFactor: 2 });
const shot = async (name) => {
  await page.waitForTimeout(350);
  await page.screenshot({ path: join(folder, `${name}.png`) });
};
const answered = (text) => page.locator('.prose', { hasText: text }).last().waitFor();
const rested = () => page.locator('#stop').waitFor({ state: 'hidden' });

for (const title of ['Fix the build on CI', 'Release notes for 0.6', 'Why is the cache cold?']) await server.api('POST', '/api/sessions', { title });
await page.locator('.answers').waitFor();
await page.reload();
await page.locator('.session').nth(2).waitFor();
await page.locator('.answers').waitFor();
await shot('empty');

model.answers.push(
  { reasoning: 'The lexer is one file. I should look at how numbers are scanned before I split anything, because the tests that fail are about numbers.', text: 'I will read the lexer first.', calls: [call('read', { path: 'lexer.rs', limit: 60 }), call('grep', { pattern: 'fn number', path: '.' }), call('glob', { pattern: '**/*_test.rs' })] },
  { text: 'Now the tests.', calls: [call('bash', { command: 'echo "running 14 tests"; echo "test number::underscore ... FAILED"; echo "assertion failed: 1_000 lexes as one token"; sleep 1.2; exit 101', description: 'Run the tests of the lexer' })] },
  { text: ANSWER },
);
await say(page, 'Please split lexer.rs into modules of one subject each, and find out why the number tests fail. Never touch the public API.');
await page.locator('.approval').waitFor();
await shot('approval-command');
await page.getByRole('button', { name: 'Allow' }).click();
await page.locator('.tool[data-status="running"]').waitFor();
await page.waitForTimeout(500);
await shot('running');
await answered('Shall I run the whole suite next?');
await rested();
await page.waitForTimeout(600);
await shot('chat');
await page.locator('#scroller').evaluate((each) => { each.scrollTop = 0; });
await shot('tools');
await page.locator('#jump').click();

model.answers.push({ text: 'I change the rule for numbers.', calls: [call('edit', { path: 'lexer.rs', old: `${LEXER.split('\n').slice(4, 7).join('\n')}\n`, new: `${LEXER.split('\n')[4]}\n/// Digits with single underscores between them.\nfn number(cursor: &mut Cursor) -> Token { cursor.number() }\n` })] });
await say(page, 'Yes, and change the number rule.');
await page.locator('.diff').waitFor();
for (const text of ['Run the tests after it, please', 'Then update the changelog', 'Keep the benchmark as it is']) await say(page, text);
await page.locator('#queue .chip').nth(2).waitFor();
await shot('queue-and-diff');
await page.emulateMedia({ colorScheme: 'dark' });
await shot('dark');
await page.setViewportSize({ width: 360, height: 740 });
await shot('narrow');
await page.locator('#drawer-toggle').click();
await shot('narrow-drawer');
await page.keyboard.press('Escape');
await page.setViewportSize({ width: 1280, height: 800 });
await page.emulateMedia({ colorScheme: 'light' });
await page.getByRole('button', { name: 'Deny' }).last().click();
await page.keyboard.type('Show me the whole file first');
await shot('deny');
await page.keyboard.press('Enter');
await rested();

for (let at = 0; at < 5; at += 1) model.answers.push({ text: `I read the part from line ${at * 30 + 1}.`, calls: [call('read', { path: 'lexer.rs', offset: at * 30 + 1, limit: 60 })] });
model.answers.push({ text: 'That was all of it. Nothing else depends on the underscore.' });
await say(page, 'Read the rest of the file');
await page.locator('#toast').waitFor({ timeout: 20_000 });
await answered('Nothing else depends on the underscore.');
await shot('compaction-toast');
await page.locator('#toast').getByRole('button', { name: 'Show' }).click();
await page.locator('#toast').waitFor({ state: 'hidden' });
await shot('compaction-opened');
await page.locator('#jump').click();
await page.locator('#meter').click();
await page.locator('.estimates td').first().waitFor();
await shot('meter');
await page.emulateMedia({ colorScheme: 'dark' });
await shot('meter-dark');
await page.emulateMedia({ colorScheme: 'light' });
await page.locator('#panel-body').evaluate((each) => { each.scrollTop = each.scrollHeight; });
await shot('meter-end');
await page.keyboard.press('Escape');
await page.locator('#settings-open').click();
await shot('settings');
await page.keyboard.press('Escape');
await page.keyboard.press('?');
await shot('help');
await page.keyboard.press('Escape');
await page.locator('#model').click();
await page.locator('#model-menu .choice-item').first().waitFor();
await shot('models');
await page.keyboard.press('Escape');
await page.locator('#session-search').fill('underscore');
await page.locator('.hit').first().click();
await shot('search');
await page.locator('#session-search').fill('');
await page.locator('.session-link').first().click();
model.answers.push({ status: 503, error: 'The model is loading.' }, { status: 401, error: 'The key is not known.' });
await say(page, 'And the benchmark?');
await page.locator('#status', { hasText: 'again in' }).waitFor();
await shot('retry');
await page.locator('.notice[data-tone="failure"]').waitFor();
await shot('error');
await page.locator('#input').fill('/');
await shot('commands');
await page.locator('#input').fill('');
await server.end('SIGKILL');
await page.locator('#banner').waitFor();
await shot('no-connection');
await server.restart();
await page.context().clearCookies();
await page.goto(`${server.base}/#opening-link-spent`);
await page.reload();
await page.locator('#login').waitFor();
await shot('login');

if (page.failures.length) console.error(page.failures.join('\n'));
await browser.close();
await server.remove();
await model.stop();
