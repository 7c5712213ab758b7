// Chromium with a profile of its own, and the page opened as a person opens it.
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: FLAGS });
}

/**
 * A new window on the page, let in by the token. What the page logs as an error fails the test that asks for
 * `page.failures`.
 */
export async function openPage(browser, server, { path = '/', ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.failures = [];
  page.on('pageerror', (error) => page.failures.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE/.test(message.text())) page.failures.push(message.text());
  });
  const login = await context.request.post(`${server.base}/api/login`, { data: { token: server.token }, headers: { origin: server.base } });
  if (!login.ok()) throw new Error(`login: ${login.status()} ${await login.text()}`);
  await page.goto(server.base + path);
  return page;
}

/** Writes a message and sends it. */
export async function say(page, text) {
  await page.locator('#input').fill(text);
  await page.keyboard.press('Enter');
}
