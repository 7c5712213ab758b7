// What is said of the line to the server: nothing while it is good.
import { byId, setText } from '../dom.js';

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
    setText(this.text, 'Connected again. Nothing was missed.');
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
    setText(this.text, this.words());
  }

  words() {
    const { state, retryAt, problem } = this.line;
    if (state === 'refused') return problem.status === 404 ? 'This session is gone.' : problem.message;
    const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1_000));
    const when = left ? `Trying again in ${left}\u00a0s.` : 'Trying again …';
    return `No connection. Nothing is lost, and the agent goes on without the page. ${when}`;
  }
}
