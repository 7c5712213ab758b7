// Light, dark, or as the system has it.

const KEY = 'longhaul.theme';
const ORDER = ['system', 'light', 'dark'];

export function currentTheme() {
  try {
    const kept = localStorage.getItem(KEY);
    return ORDER.includes(kept) ? kept : 'system';
  } catch {
    return 'system';
  }
}

export function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Private windows keep nothing.
  }
}

/** The other of what is seen now: the system's own where that is the same. */
export function otherTheme() {
  const ofSystem = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const seen = currentTheme() === 'system' ? ofSystem : currentTheme();
  const other = seen === 'dark' ? 'light' : 'dark';
  return other === ofSystem ? 'system' : other;
}
