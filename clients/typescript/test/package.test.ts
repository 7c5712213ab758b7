import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { served } from "./world.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../../", import.meta.url));

test("the package is complete: another project imports it and has its types", async () => {
  const folder = await mkdtemp(join(tmpdir(), "longhaul-package-"));
  try {
    const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { cwd: root });
    const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    const paths = files.map((file) => file.path);
    const strays = paths.filter((path) => !/^(dist\/[\w-]+\.(js|d\.ts)|package\.json|README\.md|LICENSE-\w+)$/.test(path));
    assert.deepEqual(strays, []);
    const home = join(folder, "node_modules", "longhaul-client");
    await mkdir(home, { recursive: true });
    await run("tar", ["-xzf", join(folder, filename), "-C", home, "--strip-components=1"]);
    const { dependencies } = JSON.parse(await readFile(join(home, "package.json"), "utf8")) as { dependencies?: object };
    assert.equal(dependencies, undefined);
    await writeFile(join(folder, "package.json"), '{"type":"module"}');
    const use = 'import { Longhaul } from "longhaul-client";\nconst client = new Longhaul({ baseUrl: "http://localhost" });\n';
    await writeFile(join(folder, "use.mjs"), `${use}console.log(typeof client.sendMessage);`);
    assert.equal((await run(process.execPath, [join(folder, "use.mjs")])).stdout, "function\n");
    await writeFile(join(folder, "use.ts"), `${use}export const sent: Promise<{ queued: boolean }> = client.sendMessage({ content: "hi" });\n`);
    const strict = ["--noEmit", "--strict", "--module", "NodeNext", "--target", "ES2022", "--lib", "ES2022,DOM"];
    const tsc = run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...strict, join(folder, "use.ts")], { cwd: folder });
    const said = await tsc.then(() => "", (error: { stdout: string }) => error.stdout);
    assert.equal(said, "");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

const SAYS: Record<number, RegExp> = { 1: /^Yes, at once\.$/, 2: /^Yes, at once\.\n$/, 3: /of 8000 tokens\nnothing\nassistant \d+\nuser \d+\n/, 4: /^There is no .*nobody\.\n$/ };

served("what README.md shows runs", () => ["Yes, ", "at once."], async (world) => {
  const env = { ...process.env, LONGHAUL_URL: world.url, LONGHAUL_TOKEN: world.token };
  const blocks = [...(await readFile(join(root, "README.md"), "utf8")).matchAll(/^```ts$/gm)];
  assert.equal(blocks.length, Object.keys(SAYS).length);
  for (const [at, says] of Object.entries(SAYS)) {
    const { stdout } = await run(process.execPath, [join(root, `build/js/build/readme/${at}.js`)], { env });
    assert.match(stdout, says);
  }
});

served("the example chats", () => ["Yes, ", "at once."], async (world) => {
  const env = { ...process.env, LONGHAUL_URL: world.url, LONGHAUL_TOKEN: world.token };
  const chat = execFile(process.execPath, [join(root, "build/js/examples/chat.js")], { env });
  let said = "";
  const answered = new Promise<void>((resolve, reject) => {
    chat.stdout?.on("data", (data: string) => ((said += data), said.includes("at once.\n") && resolve()));
    chat.once("exit", () => reject(new Error(`it ended: ${said}`)));
  });
  chat.stdin?.write("Hello?\n");
  await answered;
  const ended = new Promise((resolve) => chat.once("exit", resolve));
  chat.stdin?.end();
  assert.equal(await ended, 0);
});
