// `longhaul serve` for a check of what it serves. LONGHAUL_CHECK says how it is started and where its token is.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** Starts the server, hands its address and what every request brings to `work`, and ends it. */
export async function serve(work) {
  const { command, args, cwd, env, token } = JSON.parse(process.env.LONGHAUL_CHECK);
  const server = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(server, "exit");
  try {
    const [url] = await once(createInterface(server.stdout), "line");
    const headers = { authorization: `Bearer ${readFileSync(token, "utf8").trim()}` };
    const ask = async (method, path, body) => {
      const init = { method, headers: { ...headers, "content-type": "application/json" } };
      if (body !== undefined) init.body = JSON.stringify(body);
      return (await fetch(`${url}${path}`, init)).json();
    };
    await work({ url, headers, ask });
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
}

/** Waits until something is so. */
export async function until(what, isSo) {
  for (const begun = Date.now(); !(await isSo()); ) {
    if (Date.now() - begun > 20_000) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
