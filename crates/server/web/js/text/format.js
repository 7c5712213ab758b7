// Numbers and times as people read them. Pure.

const whole = new Intl.NumberFormat('en');

/** `52100` -> `52,100`. */
export function count(number) {
  return whole.format(Math.round(number ?? 0));
}

/** `52100` -> `52.1K`. */
export function tokens(number) {
  const value = Math.round(number ?? 0);
  const size = Math.abs(value);
  if (size < 1_000) return String(value);
  if (size < 99_950) return `${trim((value / 1_000).toFixed(1))}K`;
  if (size < 999_500) return `${Math.round(value / 1_000)}K`;
  return `${trim((value / 1_000_000).toFixed(size < 9_950_000 ? 2 : 1))}M`;
}

function trim(text) {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** A share in percent: `26`, `2.4`, `0.06`. */
export function percent(value) {
  const size = Math.abs(value ?? 0);
  if (size === 0) return '0';
  if (size >= 10) return String(Math.round(value));
  if (size >= 0.1) return trim(value.toFixed(1));
  return trim(value.toFixed(2));
}

/** Milliseconds as `0.4 s`, `14 s`, `2 min 5 s`, `1 h 3 min`. */
export function duration(ms) {
  const seconds = Math.max(0, ms ?? 0) / 1_000;
  if (seconds < 9.95) return `${trim(seconds.toFixed(1))} s`;
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  const minutes = Math.floor(rounded / 60);
  if (minutes < 60) return rounded % 60 ? `${minutes} min ${rounded % 60} s` : `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** How long ago, in one short word or two. */
export function ago(at, now) {
  const minutes = Math.floor(Math.max(0, now - at) / 60_000);
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (minutes < 7 * 24 * 60) return `${Math.floor(minutes / 1_440)} d`;
  return new Date(at).toLocaleDateString('en', { day: 'numeric', month: 'short' });
}

/** `1 message`, `2 messages`. */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** US dollars: `$0.14`, `$0.0021`. */
export function dollars(amount) {
  if (amount >= 0.01 || amount === 0) return `$${amount.toFixed(2)}`;
  return `$${amount.toPrecision(2)}`;
}

/** The first line of a text, cut to a length. */
export function firstLine(text, length = 120) {
  const line = (text ?? '').trimStart().split('\n', 1)[0].trimEnd();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** The number of words of a text. */
export function words(text) {
  const trimmed = text.trim();
  return trimmed ? trimmed.split(/\s+/).length : 0;
}

/** Lines of a text; a line break at its end begins none. */
export function lineCount(text) {
  if (!text) return 0;
  let lines = 1;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines += 1;
  return text.endsWith('\n') ? lines - 1 : lines;
}
