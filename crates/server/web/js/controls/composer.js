// The field: sends, queues, edits what waits, completes commands, takes pictures and files.
import { button, byId, coded, h, setText, show } from '../dom.js';
import { completions, parseCommand } from '../text/commands.js';
import { isPassing } from '../net/api.js';
import { Attachments } from './attachments.js';

const LARGEST_PX = 260;

export class Composer {
  /** `send(text, parts)`, `command({name, rest})`, `editQueued(id, text)`, `stop()`, `lastQueued()` */
  constructor(actions) {
    this.actions = actions;
    this.form = byId('composer');
    this.input = byId('input');
    this.said = byId('composer-said');
    this.stopButton = byId('stop');
    this.sendButton = byId('send');
    this.editing = null;
    this.editLine = byId('editing');
    this.attachments = new Attachments(byId('attachments'), (problem) => this.say(problem));
    this.menu = new Completion(byId('completion'), this.input, (command) => this.complete(command));
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.input.addEventListener('input', () => this.changed());
    this.input.addEventListener('keydown', (event) => this.key(event));
    this.input.addEventListener('paste', (event) => this.attachments.take(event, event.clipboardData));
    byId('attach').addEventListener('click', () => byId('files').click());
    byId('files').addEventListener('change', (event) => {
      this.attachments.add([...event.target.files]);
      event.target.value = '';
    });
    const main = byId('main');
    main.addEventListener('dragover', (event) => event.preventDefault());
    main.addEventListener('drop', (event) => this.attachments.take(event, event.dataTransfer));
    this.stopButton.addEventListener('click', () => this.actions.stop());
  }

  update({ isBusy, canStop, isHeld }) {
    this.input.placeholder = isBusy ? 'Message will be queued...' : isHeld ? 'Message, or /resume' : 'Message the agent';
    const hadFocus = document.activeElement === this.stopButton;
    this.stopButton.hidden = !canStop;
    if (hadFocus && !canStop) this.takeFocus();
    const label = this.editing ? 'Save' : isBusy ? 'Queue' : 'Send';
    setText(this.sendButton.querySelector('span'), label);
    this.sendButton.title = `${label} (Enter)`;
  }

  /** After what had the focus is gone. On a touch screen no keyboard is called up for it. */
  takeFocus() {
    if (!matchMedia('(pointer: coarse)').matches) this.input.focus({ preventScroll: true });
  }

  key(event) {
    if (this.menu.key(event)) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.submit();
    } else if (event.key === 'ArrowUp' && !this.input.value && !this.editing) {
      const entry = this.actions.lastQueued();
      if (!entry) return;
      event.preventDefault();
      this.edit(entry);
    } else if (event.key === 'Escape' && this.editing) {
      event.stopPropagation();
      this.stopEditing();
    }
  }

  changed() {
    this.say('');
    this.menu.offer(completions(this.input.value));
    this.resize();
  }

  resize() {
    if (CSS.supports('field-sizing', 'content')) return;
    this.input.style.setProperty('height', 'auto');
    this.input.style.setProperty('height', `${Math.min(this.input.scrollHeight, LARGEST_PX)}px`);
  }

  complete(command) {
    this.setText(`/${command.name}${command.usage.includes('[') || command.usage.includes('<') ? ' ' : ''}`);
  }

  setText(text) {
    this.input.value = text;
    this.input.setSelectionRange(text.length, text.length);
    this.changed();
  }

  say(said) {
    this.saidOfLine = isPassing(said);
    show(this.said, said ? coded(said.message ?? said) : []);
  }

  /** The server answers again: what was said of its absence holds no longer. */
  connected() {
    if (this.saidOfLine) this.say('');
  }

  /** Changes a waiting message. */
  edit({ id, position, text }) {
    this.draft = this.input.value;
    this.editing = id;
    show(this.editLine, h('span', {}, `Editing the waiting message ${position}`), button('Leave it as it was', { onclick: () => this.stopEditing() }));
    this.editLine.hidden = false;
    this.setText(text ?? '');
    this.input.focus();
    setText(this.sendButton.querySelector('span'), 'Save');
  }

  /** `isTaken`: what was edited went to the agent meanwhile; what was written stays, as a new message. */
  stopEditing(isTaken = false) {
    if (!this.editing) return;
    this.editing = null;
    this.editLine.hidden = true;
    if (isTaken) this.say('The agent has taken that message in the meantime. Your text here would be sent as a new message.');
    else this.setText(this.draft ?? '');
    this.actions.changed();
  }

  async submit() {
    const text = this.input.value;
    if (this.editing) {
      const id = this.editing;
      if (!text.trim()) return;
      this.draft = '';
      this.stopEditing();
      await this.attempt(text, () => this.actions.editQueued(id, text));
      return;
    }
    const command = this.attachments.isEmpty ? parseCommand(text) : null;
    if (command?.unknown) {
      this.say(command.place ?? `There is no command /${command.name}. /help lists them.`);
      return;
    }
    if (command) {
      await this.refused(text, () => this.actions.command(command));
      return;
    }
    if (!text.trim() && this.attachments.isEmpty) return;
    const files = this.attachments.parts();
    this.attachments.clear();
    await this.attempt(text, () => this.actions.send(text, files).catch((problem) => {
      this.attachments.restore(files);
      throw problem;
    }));
  }

  /** Messages go one after the other. */
  attempt(text, work) {
    const before = this.atWork ?? Promise.resolve();
    this.atWork = this.refused(text, () => before.then(work));
    return this.atWork;
  }

  /** The field is emptied at once; what was refused comes back into it, before what was written meanwhile. */
  async refused(text, work) {
    this.setText('');
    this.returned = '';
    try {
      await work();
    } catch (problem) {
      this.giveBack(text);
      this.say(problem);
    }
  }

  giveBack(text) {
    // A command is no beginning of a message.
    if (this.input.value && parseCommand(text)) return;
    if (this.editing) {
      this.draft = [text, this.draft].filter(Boolean).join('\n\n');
      return;
    }
    const { value, selectionEnd } = this.input;
    const known = this.returned && value.startsWith(this.returned) ? this.returned : '';
    const later = value.slice(known.length).replace(/^\n\n/, '');
    this.returned = [known, text].filter(Boolean).join('\n\n');
    this.setText([this.returned, later].filter(Boolean).join('\n\n'));
    if (!later) return;
    const caret = this.input.value.length - (value.length - selectionEnd);
    this.input.setSelectionRange(caret, caret);
  }
}

/** The list of commands that a beginning may become. */
class Completion {
  constructor(list, input, take) {
    Object.assign(this, { list, input, take, offered: [], chosen: 0 });
  }

  offer(commands) {
    this.offered = commands.length === 1 && `/${commands[0].name}` === this.input.value ? [] : commands;
    this.chosen = 0;
    this.draw();
  }

  draw() {
    this.list.hidden = this.offered.length === 0;
    show(this.list, this.offered.map((command, at) => h(
      'li', {
        role: 'option', id: `command-${command.name}`, 'aria-selected': String(at === this.chosen),
        onmousedown: (event) => { event.preventDefault(); this.take(command); },
      },
      h('code', {}, command.usage), h('span.quiet', {}, command.says),
    )));
    if (this.list.hidden) this.input.removeAttribute('aria-activedescendant');
    else this.input.setAttribute('aria-activedescendant', `command-${this.offered[this.chosen].name}`);
  }

  key(event) {
    if (this.list.hidden) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.chosen = (this.chosen + step + this.offered.length) % this.offered.length;
      this.draw();
    } else if (event.key === 'Tab' || (event.key === 'Enter' && `/${this.offered[this.chosen].name}` !== this.input.value)) {
      this.take(this.offered[this.chosen]);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      this.offer([]);
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  }
}
