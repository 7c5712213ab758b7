// What the commands do.
import { api } from './net/api.js';
import { sizes, whyNot } from './text/edits.js';
import { exact } from './text/exact.js';

/** Does a command; what it refuses is thrown. */
export async function sendCommand({ name, rest }, page) {
  const id = page.currentId();
  if (name === 'help') return page.openHelp();
  if (name === 'new') return page.go('#/');
  if (name === 'model') return page.model(rest);
  if (!id) throw new Error('No session is open yet: send a message first.');
  return COMMANDS[name](id, rest, page);
}

/** Rules that a person typed are no pinned orders, so the list says where they are. */
const TYPED_RULES = 'Rules in your own messages are not listed here. Every shortened view quotes them.';

/** The name of an order; a number means its place in the list of `/orders`, as in the terminal. */
async function orderNamed(id, named) {
  if (!/^\d+$/.test(named)) return named;
  const { orders } = await api.orders(id);
  const order = orders[Number(named) - 1];
  if (!order) throw new Error(`There is no standing order ${named}. /orders lists them.`);
  return order.id;
}

const COMMANDS = {
  context: (id, _, page) => page.openPanel(),

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

  async pin(id, text, page) {
    if (!text) throw new Error('Write the order after the command: /pin <text>');
    const { order } = await api.pin(id, text);
    page.toast({ title: `Pinned as ${order.id}`, lines: [exact(order.text), `Every view shows it whole from the next step on. /unpin ${order.id} removes it.`] });
  },

  async unpin(id, named, page) {
    if (!named) throw new Error('Name the standing order: /unpin <order>, for example /unpin o1 or /unpin 1. /orders lists them.');
    const order = await orderNamed(id, named);
    await api.unpin(id, order);
    page.toast({ title: `${order} is no standing order any more`, lines: ['The log keeps it.'] });
  },

  async orders(id, _, page) {
    const { orders } = await api.orders(id);
    const lines = orders.map((order, at) => `${at + 1} · ${order.id}: ${exact(order.text)}`);
    page.toast({ title: 'Standing orders', lines: [...(lines.length ? lines : ['None yet. /pin <text> adds one.']), TYPED_RULES] });
  },

  retry: (id, _, page) => page.goOn(),

  resume: (id, _, page) => page.goOn(),

  async rename(id, title, page) {
    if (!title) throw new Error('Write the title after the command: /rename <title>');
    await page.rename(title);
  },
};
