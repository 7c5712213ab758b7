// The line above the meter: what the agent does now, how long already, and what waits for a person.
import { byId, setText } from '../dom.js';
import { statusLine } from '../view/now.js';

export class Status {
  /**
   * `look()` gives the state, `toCall(callId)` brings a question into sight, `goOn()` resumes, `tryNow()` ends a wait
   * for the model's server, `leave()` takes the focus.
   */
  constructor({ look, toCall, goOn, tryNow, leave }) {
    Object.assign(this, { look, toCall, goOn, tryNow, leave });
    this.line = byId('status');
    this.text = byId('status-text');
    this.button = byId('status-review');
    this.button.addEventListener('click', () => this.act());
    setInterval(() => { if (!document.hidden) this.draw(); }, 1_000);
  }

  /** Leads to what waits for a person; answers whether anything does. */
  review() {
    const callId = this.shown?.callId;
    if (callId) this.toCall(callId);
    return Boolean(callId);
  }

  act() {
    if (this.shown.canTryNow) this.tryNow();
    else if (this.shown.canGoOn) this.goOn();
    else this.review();
  }

  draw() {
    this.shown = statusLine(this.look(), Date.now());
    const { text, tone, callId, canGoOn, canTryNow } = this.shown;
    const hadFocus = document.activeElement === this.button;
    setText(this.text, text);
    this.line.dataset.tone = tone;
    this.line.hidden = !text;
    this.button.hidden = !callId && !canGoOn && !canTryNow;
    if (hadFocus && this.button.hidden) this.leave();
    setText(this.button, canTryNow ? 'Try now' : canGoOn ? 'Go on' : 'Review');
  }
}
