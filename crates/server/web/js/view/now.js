// What the agent does now, in one line. Pure.
import { subject } from '../text/calls.js';
import { count, duration, firstLine, plural } from '../text/format.js';
import { activity } from '../state/state.js';

export function retryLine({ error, attempt, until }, now) {
  const left = Math.max(0, Math.ceil((until - now) / 1_000));
  const when = left ? `again in ${left} s` : 'trying again';
  return `${firstLine(error, 140)} · ${when} · try ${count((attempt ?? 0) + 1)}`;
}

/** The line above the meter: `{text, tone}`. */
export function statusLine(state, now) {
  const doing = activity(state);
  const since = doing.since ? ` · ${duration(now - doing.since)}` : '';
  switch (doing.kind) {
    case 'waiting': {
      const [first, ...rest] = doing.calls;
      const more = rest.length ? ` and ${count(rest.length)} more` : '';
      return { tone: 'attention', text: `Waits for you: ${first.name} ${firstLine(subject(first), 80)}${more}`, callId: first.callId };
    }
    case 'tools': {
      const [first] = doing.calls;
      const text = doing.calls.length > 1 ? `Runs ${plural(doing.calls.length, 'tool')}` : `Runs ${first.name} ${firstLine(subject(first), 60)}`;
      return { tone: 'busy', text: text + since };
    }
    case 'retrying': return { tone: 'attention', text: retryLine(doing, now) };
    case 'writing': return { tone: 'busy', text: doing.call ? `Writes the arguments of ${doing.call.name || 'a tool'} · ${plural(doing.call.length, 'character')}` : `${doing.thinks ? 'Thinks' : 'Writes'}${since}` };
    case 'compacting': return { tone: 'busy', text: `Compacting${since}` };
    case 'thinking': return { tone: 'busy', text: `Waits for the model${since}` };
    case 'parked': return { tone: 'attention', text: `Parked: ${doing.reason}`, canGoOn: true };
    default: return { tone: 'idle', text: '' };
  }
}
