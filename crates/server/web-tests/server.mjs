// The real binary on a data folder of its own, with the model of these tests behind it.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, readdirSync, readFileSync, writeFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Starts a server. `config` is the text of its agent file, without the model. */
export async function startServer(binary, { modelUrl, config = '', window = 32_000, addr = '127.0.0.1:0', args = [], imported = null }) {
  const home = mkdtempSync(join(tmpdir(), 'longhaul-page-'));
  const workspace = join(home, 'work');
  mkdirSync(workspace);
  writeFileSync(join(home, 'longhaul.yml'), [
    `model: { name: calm-30b, base_url: "${modelUrl}", context_window: ${window}, max_output_tokens: 1000 }`,
    'retry: { patience: 6s, maxDelay: 3s, streamAttempts: 2 }',
    config,
  ].join('\n'));
  const server = { home, workspace, base: null, token: null };
  const env = { PATH: process.env.PATH, HOME: home, XDG_DATA_HOME: join(home, 'data'), XDG_CONFIG_HOME: join(home, 'config'), LONGHAUL_LOG: 'warn' };
  if (imported) {
    const file = join(home, 'imported.json');
    writeFileSync(file, JSON.stringify(imported));
    const done = spawnSync(binary, ['--config', join(home, 'longhaul.yml'), 'sessions', 'import', file], { cwd: workspace, env, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`import: ${done.stdout} ${done.stderr}`);
  }
  const start = async (at) => {
    const child = spawn(binary, ['--config', join(home, 'longhaul.yml'), 'serve', '--addr', at, ...args], {
      cwd: workspace,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    server.child = child;
    server.log = '';
    child.stderr.on('data', (data) => { server.log += data; });
    let said = '';
    server.base = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server did not start: ${said} ${server.log}`)), 30_000);
      child.stdout.on('data', (data) => {
        said += data;
        const found = said.match(/http:\/\/[\d.]+:\d+/);
        if (found) { clearTimeout(timer); resolve(found[0]); }
      });
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${said} ${server.log}`)));
    });
    server.said = () => said;
    server.token = readFileSync(join(home, 'data', 'longhaul', 'token'), 'utf8').trim();
  };
  await start(addr);
  server.end = (signal = 'SIGTERM') => new Promise((resolve) => {
    if (server.child.exitCode !== null || server.child.signalCode) return resolve();
    server.child.once('exit', resolve);
    server.child.kill(signal);
  });
  /** Whether that text is on the disk: a kill would leave it there. */
  server.hasStored = (text) => readdirSync(join(home, 'data', 'longhaul'), { withFileTypes: true })
    .some((each) => each.isFile() && readFileSync(join(home, 'data', 'longhaul', each.name)).includes(text));
  server.restart = async () => start(new URL(server.base).host);
  server.remove = async () => { await server.end('SIGKILL'); rmSync(home, { recursive: true, force: true }); };
  server.api = async (method, path, body, headers = {}) => {
    const response = await fetch(server.base + path, {
      method,
      headers: { authorization: `Bearer ${server.token}`, ...(body ? { 'content-type': 'application/json' } : {}), ...headers },
      body: body ? JSON.stringify(body) : undefined,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  return server;
}
