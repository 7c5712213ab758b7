// What a browser test stands on: a model, the real server, Chromium. All of it ends with the test.
import { launch, openPage } from '../browser.mjs';
import { startModel } from '../model.mjs';
import { startServer } from '../server.mjs';

const binary = process.env.LONGHAUL;
if (!binary) throw new Error('LONGHAUL names the binary to test');

let browser = null;

/** A world of its own. `options` go to the server, a `config` may be made of the model's address; `page` options to the window. */
export async function world(t, { page: pageOptions = {}, modelOptions = {}, config = '', ...options } = {}) {
  browser ??= await launch();
  const model = await startModel(modelOptions);
  const server = await startServer(binary, { modelUrl: model.url, config: typeof config === 'function' ? config(model.url) : config, ...options });
  const page = await openPage(browser, server, pageOptions);
  t.after(async () => {
    await page.context().close();
    await server.remove();
    await model.stop();
  });
  return { model, server, page };
}

export async function endBrowser() {
  await browser?.close();
  browser = null;
}

/** A promise that is kept from outside. */
export function gate() {
  let open;
  const closed = new Promise((resolve) => { open = resolve; });
  return { closed, open };
}

/** Waits until a function gives something true. */
export async function until(what, look, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`not seen in ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

/** The conversation as it stands: `[kind, text]` of each message. */
export function conversation(page) {
  return page.locator('.rows .message').evaluateAll((rows) => rows.map((row) => [row.dataset.kind, row.querySelector('.prose, .typed').innerText.trim()]));
}
