// What the commands do.
import { api } from './net/api.js';
import { sizes, whyNot } from './text/edits.js';

/** Does a command; what it refuses is thrown. */
export async function sendCommand({ name, rest }, page) {
  const id = page.currentId();
  if (name === 'help') return page.openHelp();
  if (name === 'new') return page.go('#/');
  if (name === 'model') return page.model(rest);
  if (!id) throw new Error('No session is open yet: send a message first.');
  return COMMANDS[name](id, rest, page);
}

const COMMANDS = {
  async compact(id, instructions, page) {
    const { compacted, reason } = await api.compact(id, instructions || undefined);
    if (!compacted) page.toast({ title: 'Nothing was compacted', lines: [reason] });
  },

  async undo(id, _, page) {
    const newest = page.newestUndo();
    if (!newest) throw new Error('Nothing to undo: the model sees everything as it was said.');
    if (newest.refused) throw new Error(whyNot(newest.refused)[1]);
    const { originalTokens, compressedTokens } = newest.edit;
    await page.undo(newest.edit.id);
    page.toast({ title: 'Undone', lines: [`The model sees the original again (${sizes({ originalTokens: compressedTokens, compressedTokens: originalTokens })}).`] });
  },

  async fork(id, _, page) {
    const fork = await api.fork(id);
    await page.refreshList();
    page.go(`#/s/${fork.id}`);
    page.toast({ title: 'A new session, with everything up to here', lines: ['The other one goes on as it was.'] });
  },

  async export(id, rest, page) {
    const format = rest === 'jsonl' ? 'jsonl' : 'markdown';
    const response = await api.exported(id, format);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${page.title().replace(/[^\p{L}\p{N} _.-]+/gu, '').trim().slice(0, 60) || 'session'}.${format === 'jsonl' ? 'jsonl' : 'md'}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  },

  retry: (id, _, page) => page.goOn(),

  resume: (id, _, page) => page.goOn(),

  async rename(id, title, page) {
    if (!title) throw new Error('Say how it shall be called: /rename <title>');
    await page.rename(title);
  },
};
