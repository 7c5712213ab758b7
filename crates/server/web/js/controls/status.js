// The line above the meter: what the agent does now, how long already, and what waits for a person.
import { byId, setText } from '../dom.js';
import { statusLine } from '../view/now.js';

export class Status {
  /** `look()` gives the state, `review(callId)` brings a question into sight, `goOn()` resumes. */
  constructor({ look, review, goOn }) {
    Object.assign(this, { look, review, goOn });
    this.line = byId('status');
    this.text = byId('status-text');
    this.button = byId('status-review');
    this.button.addEventListener('click', () => (this.shown.canGoOn ? this.goOn() : this.review(this.shown.callId)));
    setInterval(() => { if (!document.hidden) this.draw(); }, 1_000);
  }

  draw() {
    this.shown = statusLine(this.look(), Date.now());
    const { text, tone, callId, canGoOn } = this.shown;
    setText(this.text, text);
    this.line.dataset.tone = tone;
    this.line.hidden = !text;
    this.button.hidden = !callId && !canGoOn;
    setText(this.button, canGoOn ? 'Go on' : 'Review');
  }
}
