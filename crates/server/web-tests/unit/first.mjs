import { readFileSync } from 'node:fs';
import { reduce } from '../../web/js/state/reduce.js';
import { emptyState, activity } from '../../web/js/state/state.js';
import { rowMaker } from '../../web/js/state/rows.js';
import { sseParser } from '../../web/js/net/sse.js';
const parse = sseParser();
let st = emptyState('x'); let t = 0;
for (const ev of parse(readFileSync('/tmp/wt/events.txt', 'utf8'))) { if (!ev.data) continue; const e = JSON.parse(ev.data); st = reduce(st, { ...e, at: t += 10 }); }
const rest = JSON.parse(readFileSync('/tmp/wt/rest.json'));
let st2 = reduce(reduce(reduce(emptyState('x'), { name: 'page:messages', ...rest.msgs, isOlder: true }), { name: 'page:compactions', ...rest.comps }), { name: 'page:session', session: rest.one, at: 1 });
st = reduce(st, { name: 'page:compactions', ...rest.comps });
const show = (s) => rowMaker()(s).map((r) => `${r.kind} ${r.key} ${r.kind === 'message' ? r.message.kind + ' ' + r.message.text.slice(0, 30) + ' ' + r.message.calls.map((c) => c.name + ':' + c.status) : r.kind === 'fold' ? r.messages.length + ' inner ' + r.inner.length : ''} ${r.speaks ? '*' : ''}`).join('\n');
console.log(show(st)); console.log('---'); console.log(show(st2)); console.log(activity(st), st.steps.length, st2.steps.length, st.queue, st.seq, st.estimates.length);
