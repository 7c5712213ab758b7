// Pictures and files of a message: stored ones from the server, by the cookie; nothing from elsewhere.
import { h, icon } from '../dom.js';
import { api } from '../net/api.js';

export function mediaList(sessionId, media) {
  if (!media.length) return null;
  return h('div.media', {}, media.map((part) => mediaItem(sessionId, part)));
}

function mediaItem(sessionId, part) {
  const path = api.blobPath(sessionId, part.blob?.hash ?? '');
  const name = part.name ?? (part.type === 'image' ? 'Picture' : 'File');
  if (part.type === 'image') {
    const picture = h('img', {
      src: path, alt: name, loading: 'lazy', decoding: 'async', width: part.width, height: part.height,
    });
    return h('a.picture', { href: path, target: '_blank', rel: 'noopener', title: name }, picture);
  }
  return h('a.file', { href: path, download: name }, icon('file'), h('span', {}, name), h('small', {}, part.mediaType ?? ''));
}
