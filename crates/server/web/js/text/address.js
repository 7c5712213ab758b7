// What the address of the page says: which session is open, and where in it. Pure.

/** `#/s/abc` or, at a position of its log, `#/s/abc/12`. */
export function addressOf(id, seq = null) {
  return seq === null || seq === undefined ? `#/s/${id}` : `#/s/${id}/${seq}`;
}

/** @returns {{id: string|null, seq: number|null}} */
export function readAddress(hash) {
  const [, id = null, seq = null] = hash.match(/^#\/s\/([\w-]+)(?:\/(\d{1,15}))?$/) ?? [];
  return { id, seq: seq === null ? null : Number(seq) };
}
