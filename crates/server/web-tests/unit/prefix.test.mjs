import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { folderName } from '../../web/js/text/folder.js';
import { ROOT, api, rootOf, send } from '../../web/js/net/api.js';

test('requests go below the path at which the page is', () => {
  assert.equal(rootOf('http://127.0.0.1:4400/web/js/net/api.js'), '');
  assert.equal(rootOf('https://box.example/x/web/js/net/api.js'), '/x');
  assert.equal(rootOf('https://box.example/a/b/web/js/net/api.js'), '/a/b');
  assert.equal(rootOf('https://box.example/x/web/js/web/js/net/api.js'), '/x/web/js');
  assert.equal(rootOf('file:///home/web/js/net/api.js'), '', 'a test has no server');
});

test('every path of the page takes the root', async () => {
  const asked = [];
  globalThis.fetch = async (path) => { asked.push(path); return new Response('{}'); };
  await send('/api/sessions', {});
  assert.deepEqual(asked, [`${ROOT}/api/sessions`]);
  assert.equal(api.blobPath('s', 'h'), `${ROOT}/api/sessions/s/blobs/h`);
});

test('the page names its files from where it is', async () => {
  const page = await readFile(new URL('../../web/index.html', import.meta.url), 'utf8');
  const named = [...page.matchAll(/(?:href|src)="([^"#]+)"/g)].map(([, address]) => address);
  assert.ok(named.length > 10);
  for (const address of named) assert.match(address, /^web\//);
});

test('a folder is shown by its end', () => {
  assert.equal(folderName('/home/ada/work'), '/home/ada/work');
  assert.equal(folderName('/'), '/');
  assert.equal(folderName('/home/ada/projects/customers/2026/lighthouse'), '…/projects/customers/2026/lighthouse');
  assert.equal(folderName('/home/ada/projects/customers/2026/lighthouse', 20), '…/2026/lighthouse');
  assert.equal(folderName(`/a/${'x'.repeat(60)}`), `…/${'x'.repeat(60)}`);
});
