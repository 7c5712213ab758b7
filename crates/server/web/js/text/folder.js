// Folders for people. Pure.

/** The end of a path that fits a narrow line: whole folders, the last one always. */
export function folderName(path, most = 36) {
  const parts = path.split('/').filter(Boolean);
  if (path.length <= most || parts.length < 2) return path;
  let shown = parts.pop();
  while (parts.length && parts.at(-1).length + shown.length + 3 <= most) shown = `${parts.pop()}/${shown}`;
  return `…/${shown}`;
}
