import { startModel } from './model.mjs';
import { startServer } from './server.mjs';
const model = await startModel();
const imported = [];
for (let at = 0; at < 950; at += 1) imported.push({ role: 'user', content: `Question ${at}: ${'word '.repeat(20)}` }, { role: 'assistant', content: `Answer ${at}: ${'text '.repeat(20)}` });
const server = await startServer(process.argv[2], { modelUrl: model.url, window: 9_500, imported, config: 'context: { compression: { strategy: truncation, trigger: { type: threshold, percentage: 0.6 } } }' });
const { sessions: [{ id }] } = await server.api('GET', '/api/sessions');
for (let at = 0; at < 80; at += 1) {
  await server.api('POST', '/api/message', { sessionId: id, content: `More ${at}: ${'filler words here '.repeat(150)}` });
  for (;;) { const s = await server.api('GET', `/api/sessions/${id}`); if (s.status === 'idle') break; await new Promise((r) => setTimeout(r, 15)); }
}
const { compactions } = await server.api('GET', `/api/sessions/${id}/compactions`);
const page = await server.api('GET', `/api/sessions/${id}`);
console.log('compactions', compactions.length, 'active', compactions.filter((c) => c.active).length, 'lastSeq', page.lastSeq, compactions.map((c) => c.undo).join(' '));
const time = async (path) => { const t = []; for (let i = 0; i < 15; i += 1) { const b = performance.now(); await server.api('GET', path); t.push(performance.now() - b); } t.sort((a, b) => a - b); return t[7].toFixed(1); };
console.log('context ms', await time(`/api/sessions/${id}/context`), 'compactions ms', await time(`/api/sessions/${id}/compactions`), 'session', await time(`/api/sessions/${id}`), 'list', await time('/api/sessions?limit=200'));
await server.remove(); await model.stop();
