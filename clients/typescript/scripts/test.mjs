// Builds the package, its tests and what README.md shows, and runs all tests, or those that are named.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const BLOCK = /^```ts\n([^]*?)^```$/gm;

rmSync("build", { recursive: true, force: true });
mkdirSync("build/readme", { recursive: true });
for (const [at, [, code]] of [...readFileSync("README.md", "utf8").matchAll(BLOCK)].entries()) {
  writeFileSync(`build/readme/${at + 1}.ts`, code);
}
run("npm", ["run", "--silent", "build"]);
run("npx", ["--no-install", "tsc", "-p", "tsconfig.test.json"]);
const named = process.argv.slice(2);
const tests = readdirSync("build/js/test").filter((file) => file.endsWith(".test.js"));
const chosen = tests.filter((file) => named.length === 0 || named.some((name) => file.startsWith(name)));
run(process.execPath, ["--enable-source-maps", "--test", "--test-timeout=120000", ...chosen.map((file) => `build/js/test/${file}`)]);

function run(command, args) {
  const { status } = spawnSync(command, args, { stdio: "inherit", shell: process.platform === "win32" });
  if (status !== 0) process.exit(status ?? 1);
}
