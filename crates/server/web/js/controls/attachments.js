// Pictures and files that go with the next message.
import { button, h, icon, show } from '../dom.js';

const LARGEST = 20 * 1024 * 1024;

export class Attachments {
  constructor(list, refuse) {
    Object.assign(this, { list, refuse, files: [] });
  }

  get isEmpty() {
    return this.files.length === 0;
  }

  /** Takes files out of a paste or a drop. */
  take(event, transfer) {
    const files = [...(transfer?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.add(files);
  }

  async add(files) {
    for (const file of files) {
      if (file.size > LARGEST) {
        this.refuse(`${file.name} is larger than 20 MB.`);
        continue;
      }
      const data = await base64Of(file);
      this.files.push({ name: file.name, mediaType: file.type || 'application/octet-stream', data });
    }
    this.draw();
  }

  draw() {
    this.list.hidden = this.isEmpty;
    show(this.list, this.files.map((file, at) => h(
      'li.chip', {}, icon('file'), h('span.chip-text', {}, file.name),
      button(`Remove ${file.name}`, { symbol: 'close', onlyIcon: true, onclick: () => { this.files.splice(at, 1); this.draw(); } }),
    )));
  }

  parts() {
    return this.files.map(({ name, mediaType, data }) => ({ type: mediaType.startsWith('image/') ? 'image' : 'file', mediaType, name, data }));
  }

  /** Those of a message that was refused. */
  restore(files) {
    this.files.unshift(...files);
    this.draw();
  }

  clear() {
    this.files = [];
    this.draw();
  }
}

async function base64Of(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = '';
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}
