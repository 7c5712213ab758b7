// The folder that the agent works in, below the list of sessions.
import { byId } from '../dom.js';
import { api } from '../net/api.js';
import { folderName } from '../text/folder.js';

/** Shows the folder; without an answer the line stays hidden. */
export async function showFolder() {
  const models = await api.models().catch(() => null);
  if (!models?.workspace) return;
  const line = byId('folder');
  line.textContent = folderName(models.workspace);
  line.title = `The agent works in ${models.workspace}`;
  line.hidden = false;
}
