// The pictures of the README: node pictures.mjs BINARY FOLDER
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, openPage, say } from './browser.mjs';
import { startModel } from './model.mjs';
import { startServer } from './server.mjs';
import { ANSWER, LEXER, call } from './story.mjs';

const [binary, folder] = process.argv.slice(2);
if (!binary || !folder) throw new Error('node pictures.mjs BINARY FOLDER');
mkdirSync(folder, { recursive: true });

const WINDOW = 10_000;
const SIZE = { width: 1180, height: 830 };

const model = await startModel({ window: WINDOW });
const server = await startServer(binary, { modelUrl: model.url, window: WINDOW });
writeFileSync(join(server.workspace, 'check.sh'), 'echo "running 14 tests"; echo "test number::underscore ... FAILED"; sleep 1.1; exit 101\n');
writeFileSync(join(server.workspace, 'lexer.rs'), LEXER);
const browser = await launch();
const page = await openPage(browser, server, { viewport: SIZE, colorScheme: 'light' });
const shot = async (name) => {
  await page.mouse.move(0, 0);
  await page.waitForTimeout(900);
  await page.screenshot({ path: join(folder, `${name}.png`) });
};
const rested = () => page.locator('#stop').waitFor({ state: 'hidden' });
const answered = async (text) => {
  await page.locator('.prose', { hasText: text }).last().waitFor();
  await rested();
};

for (const title of ['Release notes for 0.6', 'Fix the build on CI', 'Why is the cache cold?']) await server.api('POST', '/api/sessions', { title });
for (let at = 0; at < 5; at += 1) model.answers.push({ text: `Lines ${at * 36 + 1} and on.`, calls: [call('read', { path: 'lexer.rs', offset: at * 36 + 1, limit: 36 })] });
model.answers.push({ text: 'I have read all of it.' });
await say(page, 'Read lexer.rs from beginning to end.');
await answered('I have read all of it.');
await say(page, '/rename Split the lexer');
await page.locator('#title', { hasText: 'Split the lexer' }).waitFor();
await say(page, '/compact');
await page.locator('.fold').first().waitFor();
await page.locator('#toast').getByRole('button', { name: 'Close' }).click();

model.answers.push(
  { reasoning: 'The failing tests are about numbers, so I look at how digits are scanned.', text: 'I look at the numbers first.', calls: [call('read', { path: 'lexer.rs', limit: 12 }), call('grep', { pattern: 'is_digit\\(1\\)', path: '.' })] },
  { calls: [call('bash', { command: 'sh check.sh number', description: 'Run the tests of the lexer' })] },
  { text: ANSWER.split('\n\n').filter((_, at) => ![3, 4].includes(at)).join('\n\n') },
);
await say(page, 'Why do the number tests fail? Never touch the public API.');
await page.getByRole('button', { name: 'Allow', exact: true }).click();
await answered('Shall I run the whole suite next?');
await page.locator('.tool[data-status="error"] .tool-line').click();
await page.locator('#jump').click({ timeout: 2_000 }).catch(() => {});
await shot('chat');

await page.setViewportSize({ ...SIZE, height: 740 });
await page.locator('#meter').click();
await page.locator('.estimates td').first().waitFor();
await shot('meter');
await page.keyboard.press('Escape');

await page.emulateMedia({ colorScheme: 'dark' });
model.answers.push({ text: 'I change the rule for numbers.', calls: [call('edit', { path: 'lexer.rs', old: `${LEXER.split('\n').slice(4, 7).join('\n')}\n`, new: `${LEXER.split('\n')[4]}\n/// Digits with single underscores between them.\nfn number(cursor: &mut Cursor) -> Token { cursor.number() }\n` })] });
await say(page, 'Yes, and change the number rule.');
await page.locator('.diff').waitFor();
for (const text of ['Run the whole suite after it', 'Then update the changelog']) await say(page, text);
await page.locator('#queue .chip').nth(1).waitFor();
await shot('dark');

if (page.failures.length) throw new Error(page.failures.join('\n'));
await browser.close();
await server.remove();
await model.stop();
