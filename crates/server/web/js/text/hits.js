// What a search has found, by session. Pure.

/** Characters of a passage before the first of the words, and in all. */
const BEFORE = 20;
const LENGTH = 110;

/**
 * Sessions in the order in which they were found: `{id, title, at, places: [{seq, role, text}]}`. What was found in a
 * title has no place.
 */
export function foundSessions(hits) {
  const found = new Map();
  for (const hit of hits) {
    const session = found.get(hit.sessionId) ?? { id: hit.sessionId, title: hit.title ?? null, at: null, places: [] };
    session.at = Math.max(session.at ?? 0, hit.at ?? 0) || null;
    const seq = seqOf(hit);
    if (seq !== null && !session.places.some((place) => place.seq === seq)) session.places.push({ seq, role: hit.role ?? null, text: hit.text ?? '' });
    found.set(hit.sessionId, session);
  }
  return [...found.values()];
}

const GAPS = {
  'more-hits': 'there are more hits',
  'too-many-sessions': 'the oldest sessions were not searched',
  'too-many-events': 'older messages were not searched',
  'too-much-content': 'some long outputs and files were not searched to their end',
  damage: 'damaged messages were not searched',
};

/** What a search left out, in a sentence; empty if it left out nothing. */
export function leftOutOfSearch({ complete, incompleteReasons }) {
  if (complete !== false) return '';
  const said = (incompleteReasons ?? []).map((reason) => GAPS[reason]).filter(Boolean).join('; ');
  return said ? `Not complete: ${said}.` : 'The newest of them; there may be more.';
}

function seqOf({ seq, handle }) {
  if (Number.isInteger(seq)) return seq;
  const named = /^lh:(\d+)/.exec(handle ?? '');
  return named ? Number(named[1]) : null;
}

/** The words of a query, in small letters, each once. */
export function wordsOf(query) {
  return [...new Set(query.toLowerCase().split(/\s+/).filter(Boolean))];
}

/** Where words stand in a text: `[from, to]` from left to right, none over another. */
export function placesOf(text, words) {
  const lower = text.toLowerCase();
  // Letters that change their length in small would shift every place behind them.
  if (lower.length !== text.length) return [];
  const places = [];
  for (const word of words) {
    for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) places.push([at, at + word.length]);
  }
  places.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  return places.filter(([from], at) => places.slice(0, at).every(([, to]) => to <= from));
}

/** One line around the first of the words, in pieces: `{text, isWord}`. */
export function passage(text, words) {
  const line = text.replace(/\s+/g, ' ').trim();
  const first = placesOf(line, words)[0]?.[0] ?? 0;
  const word = line.lastIndexOf(' ', first - BEFORE) + 1;
  const from = first <= BEFORE ? 0 : first - word > 2 * BEFORE ? first - BEFORE : word;
  const cut = `${from ? '…' : ''}${line.slice(from, from + LENGTH)}${from + LENGTH < line.length ? '…' : ''}`;
  const pieces = [];
  let end = 0;
  for (const [start, stop] of placesOf(cut, words)) {
    if (start > end) pieces.push({ text: cut.slice(end, start), isWord: false });
    pieces.push({ text: cut.slice(start, stop), isWord: true });
    end = stop;
  }
  if (end < cut.length) pieces.push({ text: cut.slice(end), isWord: false });
  return pieces;
}
