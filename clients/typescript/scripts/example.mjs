// Builds the package and runs the example that is named, with the arguments behind it.
import { spawnSync } from "node:child_process";

const [name = "chat", ...args] = process.argv.slice(2);
const npm = (...args) => spawnSync("npm", args, { stdio: "inherit", shell: process.platform === "win32" });
npm("run", "--silent", "build");
npm("exec", "--", "tsc", "-p", "tsconfig.test.json");
process.exit(spawnSync(process.execPath, [`build/js/examples/${name}.js`, ...args], { stdio: "inherit" }).status ?? 1);
