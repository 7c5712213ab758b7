// What the agent does now, in one line. Pure.
import { subject } from '../text/calls.js';
import { exact } from '../text/exact.js';
import { count, duration, firstLine, plural } from '../text/format.js';
import { activity } from '../state/state.js';

const WAITS = { outage: 'The model server does not answer', 'rate-limit': 'The model server asks to wait', 'broken-answer': 'The answer broke off', refusal: 'The model server refused the request without a reason' };

/** What the model server did. A server that answers with an error has answered. */
function waitReason(reason, error) {
  const isAnswer = /\(HTTP \d{3}\)/.test(error ?? '');
  if ((WAITS[reason] ?? WAITS.outage) === WAITS.outage && isAnswer) return 'The model server reports an error';
  return WAITS[reason] ?? WAITS.outage;
}

export function retryLine({ reason, error, attempt, until }, now) {
  const left = Math.max(0, until - now);
  const when = left ? `next try in ${duration(Math.ceil(left / 1_000) * 1_000)}${momentBehind(until, now)}` : 'trying again';
  return `${waitReason(reason, error)} · ${when} · try ${count((attempt ?? 0) + 1)} · ${firstLine(error, 140)}`;
}

/** The moment of a wait's end, if that lies far ahead; on another day with its date. */
function momentBehind(until, now) {
  if (until - now < 600_000) return '';
  const [end, begin] = [new Date(until), new Date(now)];
  const time = end.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  const isToday = end.toDateString() === begin.toDateString();
  return ` (at ${isToday ? time : `${time} on ${end.toLocaleDateString('en', { day: 'numeric', month: 'short' })}`})`;
}

function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
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
    case 'retrying': return { tone: 'attention', text: retryLine(doing, now), canTryNow: doing.until > now };
    case 'writing': return { tone: 'busy', text: doing.call ? `Writes the arguments of ${exact(doing.call.name) || 'a tool'} · ${plural(doing.call.length, 'character')}` : `${doing.thinks ? 'Thinks' : 'Writes'}${since}` };
    case 'compacting': return { tone: 'busy', text: `Compacting${since}` };
    case 'thinking': return { tone: 'busy', text: `Waits for the model${since}` };
    case 'parked': return { tone: 'attention', text: `Parked: ${doing.reason}`, canGoOn: true };
    // Said at rest only: what the agent does now matters more, and a person sees it before the next message.
    default: return state.session?.folderWarning
      ? { tone: 'attention', text: sentence(state.session.folderWarning) }
      : { tone: 'idle', text: '' };
  }
}
