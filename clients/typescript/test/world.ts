/** The real server over a model of the test's own. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type EventName, type EventOf, Longhaul, type LonghaulEvent, type LonghaulOptions } from "../src/index.js";
import { pause } from "../src/pause.js";
import { Model, type Script } from "./model.js";

/** How long anything may take before a test fails. */
export const PATIENCE_MS = 30_000;

const BINARY = process.env["LONGHAUL_BIN"];
const IS_REQUIRED = process.env["LONGHAUL_REQUIRE_CLIENT"] === "1";

/** A test against the real server, which `LONGHAUL_BIN` names. */
export function served(name: string, script: Script, body: (world: World, context: TestContext) => Promise<void>, config = ""): void {
  const isThere = BINARY !== undefined && existsSync(BINARY);
  const missing = BINARY ? `LONGHAUL_BIN names no file: ${BINARY}` : "LONGHAUL_BIN is not set: it names the longhaul binary";
  if (!isThere && IS_REQUIRED) {
    test(name, () => {
      throw new Error(missing);
    });
    return;
  }
  const skip = isThere ? false : missing;
  test(name, { skip, timeout: 2 * PATIENCE_MS }, async (context) => {
    const world = await World.start(script, config);
    try {
      await body(world, context);
    } catch (error) {
      context.diagnostic(world.log());
      throw error;
    } finally {
      await world.end();
    }
  });
}

export class World {
  url = "";
  token = "";
  #port = 0;
  #server: ChildProcess | undefined;
  #log = "";

  private constructor(
    readonly folder: string,
    readonly model: Model,
  ) {}

  static async start(script: Script, config: string): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), "longhaul-client-"));
    const world = new World(folder, await Model.start(script));
    await world.serve(config);
    return world;
  }

  /** Starts the server, over the same data and at the same address if it ran before. */
  async serve(config?: string): Promise<void> {
    const file = join(this.folder, "agent.yml");
    if (config !== undefined) await writeFile(file, `${config}\nmodel:\n  provider: openai-compatible\n  name: mock\n  base_url: ${this.model.baseUrl}\n  context_window: 8000\n`);
    const args = ["--config", file, "--data-dir", join(this.folder, "data"), "--workspace", this.folder];
    const server = spawn(BINARY ?? "", [...args, "serve", "--addr", `127.0.0.1:${this.#port}`], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: this.folder, KEY: "none" },
    });
    this.#server = server;
    server.stderr.on("data", (data: Buffer) => (this.#log += data.toString()));
    const address = await new Promise<string>((resolve, reject) => {
      let said = "";
      server.stdout.on("data", (data: Buffer) => {
        said += data.toString();
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
        if (found) resolve(found[0]);
      });
      server.once("exit", () => reject(new Error(`the server ended: ${this.#log}`)));
    });
    this.url = address;
    this.#port = Number(new URL(address).port);
    this.token = (await readFile(join(this.folder, "data", "token"), "utf8")).trim();
  }

  client(options: Partial<LonghaulOptions> = {}): Longhaul {
    const quick = { baseMs: 10, maxMs: 200 };
    return new Longhaul({
      baseUrl: this.url,
      token: this.token,
      ...options,
      retry: { ...quick, ...options.retry },
      stream: { ...quick, ...options.stream },
    });
  }

  log(): string {
    return this.#log;
  }

  /** Ends the server without a word. */
  async kill(): Promise<void> {
    const server = this.#server;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    server.kill("SIGKILL");
    await ended;
  }

  async end(): Promise<void> {
    await this.kill();
    await this.model.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Everything that a stream tells, kept, and a way to wait for it. */
export class Watch {
  readonly seen: LonghaulEvent[] = [];
  readonly done: Promise<unknown>;
  readonly #stop = new AbortController();
  #tell = () => {};
  #news = Promise.resolve();
  #read = 0;
  #failure: unknown;

  constructor(client: Longhaul, sessionId: string, after?: number) {
    this.#renew();
    const options = { signal: this.#stop.signal, ...(after === undefined ? {} : { after }) };
    this.done = this.#follow(client.events(sessionId, options));
  }

  /** The next event of that name that was not waited for yet. */
  async next<Name extends EventName>(name: Name, where: (event: EventOf<Name>) => boolean = () => true): Promise<EventOf<Name>> {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      for (; this.#read < this.seen.length; this.#read += 1) {
        const event = this.seen[this.#read] as LonghaulEvent;
        if (event.name === name && where(event as EventOf<Name>)) {
          this.#read += 1;
          return event as EventOf<Name>;
        }
      }
      if (this.#failure) throw this.#failure;
      if (Date.now() > end) throw new Error(`no ${name} among ${this.seen.map((event) => event.name).join(" ")}`);
      await Promise.race([this.#news, pause(1_000)]);
    }
  }

  /** What was stored, in the order it was told. */
  stored(): LonghaulEvent[] {
    return this.seen.filter((event) => event.seq !== undefined);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.done.catch(() => {});
  }

  async #follow(events: AsyncIterable<LonghaulEvent>): Promise<void> {
    try {
      for await (const event of events) {
        this.seen.push(event);
        this.#tell();
        this.#renew();
      }
    } catch (error) {
      this.#failure = error;
      this.#tell();
    }
  }

  #renew(): void {
    this.#news = new Promise((resolve) => (this.#tell = resolve));
  }
}

/** Once `what` is so. */
export async function until(what: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await what())) {
    if (Date.now() > end) throw new Error(`never so: ${what.toString()}`);
    await pause(10);
  }
}

/** Everything that is stored, as a reader tells it who was never interrupted. */
export async function wholeLog(client: Longhaul, sessionId: string): Promise<LonghaulEvent[]> {
  const events: LonghaulEvent[] = [];
  const { lastSeq } = await client.sessions.get(sessionId);
  for await (const event of client.events(sessionId, { after: 0 })) {
    if (event.seq !== undefined) events.push(event);
    if (event.name === "queue:snapshot") break;
  }
  if ((events.at(-1)?.seq ?? 0) > lastSeq) throw new Error("the session was not at rest");
  return events;
}
