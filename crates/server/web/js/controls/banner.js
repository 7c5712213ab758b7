// What is said of the line to the server: nothing while it is good.
import { byId, coded, h, show } from '../dom.js';

/** Hosts of this machine: there it is Longhaul itself that is away, not the line. */
const HERE = ['localhost', '127.0.0.1', '[::1]'];

/** A short break is not worth a word. */
const PATIENCE_MS = 700;

export class Banner {
  constructor(retry) {
    this.element = byId('banner');
    this.text = byId('banner-text');
    this.line = null;
    byId('banner-retry').addEventListener('click', retry);
    setInterval(() => this.draw(), 500);
  }

  update(line) {
    const wasLost = this.line?.state === 'lost' && !this.element.hidden;
    this.since = line.state === 'lost' ? this.since ?? Date.now() : null;
    this.line = line;
    if (line.state === 'open' && wasLost) this.back();
    else this.draw();
  }

  hide() {
    this.line = null;
    this.since = null;
    this.element.hidden = true;
  }

  back() {
    this.element.dataset.tone = 'good';
    this.say('Connected again. Nothing was missed.');
    byId('banner-retry').hidden = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (this.line?.state === 'open') this.element.hidden = true; }, 2_500);
  }

  draw() {
    if (!this.line || this.line.state === 'open') return;
    if (this.line.state === 'lost' && Date.now() - this.since < PATIENCE_MS) return;
    this.element.hidden = false;
    this.element.dataset.tone = 'attention';
    byId('banner-retry').hidden = this.line.state !== 'lost';
    this.say(this.words(), this.when());
  }

  say(words, when = '') {
    if (this.said === words + when) return;
    this.said = words + when;
    show(this.text, coded(words), when ? h('span.numbers', {}, ` ${when}`) : null);
  }

  words() {
    const { state, problem } = this.line;
    if (state === 'refused') return problem.status === 404 ? 'This session is gone.' : problem.message;
    if (HERE.includes(location.hostname)) return 'No connection: Longhaul has stopped, or is starting again. Nothing is lost. Start it with `longhaul`, as before. This page then connects by itself.';
    return 'No connection. Nothing is lost, and the agent goes on without the page.';
  }

  when() {
    if (this.line.state !== 'lost') return '';
    const left = Math.max(0, Math.ceil((this.line.retryAt - Date.now()) / 1_000));
    return left ? `Trying again in ${left}\u00a0s.` : 'Trying again …';
  }
}
