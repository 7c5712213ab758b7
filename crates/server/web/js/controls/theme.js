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

/** The next of the three. */
export function nextTheme() {
  return ORDER[(ORDER.indexOf(currentTheme()) + 1) % ORDER.length];
}
