// The list of sessions as a drawer, where the window is narrow.
import { byId } from '../dom.js';

export class Drawer {
  constructor() {
    this.opener = byId('drawer-toggle');
    this.opener.addEventListener('click', () => this.toggle(true));
    byId('drawer-shade').addEventListener('click', () => this.toggle(false));
    byId('drawer-close').addEventListener('click', () => this.toggle(false));
    addEventListener('hashchange', () => this.show(false));
  }

  get isOpen() {
    return document.body.classList.contains('drawer-open');
  }

  show(isOpen) {
    document.body.classList.toggle('drawer-open', isOpen);
    this.opener.setAttribute('aria-expanded', String(isOpen));
  }

  toggle(isOpen) {
    this.show(isOpen);
    if (isOpen) byId('session-search').focus();
    else this.opener.focus();
  }

  /** To the field that searches, wherever it is. */
  search() {
    if (this.opener.checkVisibility()) this.toggle(true);
    byId('session-search').focus();
    byId('session-search').select();
  }
}
