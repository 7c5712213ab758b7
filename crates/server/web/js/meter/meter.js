// The meter: one thin bar and its caption. A click opens the panel.
import { byId, h, setText } from '../dom.js';
import { tokens } from '../text/format.js';
import { captionOf, isAssumed, segmentsOf, spokenOf, ticksOf } from './segments.js';
import { movedLine, restsOn } from './trigger.js';

export class Meter {
  constructor(onOpen) {
    this.element = byId('meter');
    this.bar = byId('meter-bar');
    this.caption = byId('meter-caption');
    this.element.addEventListener('click', onOpen);
    this.parts = new Map();
  }

  update({ usage, report, moved, compacting, summaries, edits }) {
    if (this.usage !== usage || this.report !== report) {
      this.usage = usage;
      this.report = report;
      setText(this.caption, captionOf(usage, report));
      this.caption.title = [restsOn(report), movedLine(moved)].filter(Boolean).join('\n');
      this.element.setAttribute('aria-label', `${spokenOf(usage, report)}${isAssumed(report) ? ' The size of the window is assumed.' : ''} Open the details.`);
      this.draw(report, usage, activeSummaries(edits, summaries));
    }
    this.element.classList.toggle('compacting', Boolean(compacting));
    this.element.classList.toggle('full', Boolean(usage && report && report.thresholds[0] && usage.total >= report.thresholds[0].tokens));
  }

  draw(report, usage, summaries) {
    if (!report) {
      this.bar.replaceChildren(usage ? part({ key: 'messages', label: 'In the window', tokens: usage.total, estimated: true }, usage.window) : '');
      return;
    }
    // The newest total wins over the parts until they are counted again.
    const segments = segmentsOf(report, summaries);
    const whole = segments.reduce((sum, segment) => sum + segment.tokens, 0);
    const ticks = ticksOf(report).map((tick) => h(`span.tick.at-${tick.key}`, { title: tick.label, vars: { left: `${tick.at * 100}%` } }));
    this.bar.replaceChildren(...segments.map((segment) => part(segment, whole)), ...ticks);
  }
}

function part({ key, label, tokens: size, estimated }, whole) {
  const about = estimated && key !== 'free' && key !== 'reserve' ? ' (estimated)' : '';
  return h(`span.part.m-${key}${estimated ? '.estimated' : ''}`, {
    title: `${label}: ${tokens(size)}${about}`, vars: { 'flex-grow': String(size / whole) },
  });
}

/** Texts of the summaries that the model sees now: those of a later compaction took the place of earlier ones. */
export function activeSummaries(edits, summaries) {
  const newest = edits.findLast((edit) => edit.active && edit.kind === 'compaction' && summaries[edit.id]);
  return newest ? summaries[newest.id].parts : [];
}
