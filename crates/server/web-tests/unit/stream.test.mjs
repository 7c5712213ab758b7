import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watch } from '../../web/js/net/stream.js';

/** What each connection says before it ends. */
const SAID = [
  'id: 2\ndata: {"seq":2}\n\nid: 3.1\ndata: {"seq":3}\n\nid: 3.10\ndata: {"seq":3}\n\ndata: {"name":"llm:chunk"}\n\n',
  'id: 3\ndata: {"seq":3}\n\n',
  '',
];

test('a stream that is cut within a position goes on right behind what came', async (context) => {
  const asked = [];
  let end;
  const ended = new Promise((resolve) => { end = resolve; });
  context.mock.method(globalThis, 'fetch', async (path, { headers }) => {
    asked.push([path, headers['last-event-id']]);
    if (asked.length === SAID.length) end();
    return new Response(SAID[asked.length - 1] ?? '');
  });
  const events = [];
  const look = watch('s', 1, { onEvents: (list) => events.push(...list), onState: ({ state }) => { if (state === 'lost') setTimeout(() => look.retry()); } });
  await ended;
  look.stop();
  assert.deepEqual(asked, [1, 2, 3].map((after, at) => [`/api/sessions/s/events?after=${after}`, [undefined, '3.10', '3'][at]]));
  assert.deepEqual(events.map((event) => event.seq ?? event.name), [2, 3, 3, 'llm:chunk', 3]);
});
