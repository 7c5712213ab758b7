// Makes src/generated.ts of the server's description; with --check it only says whether that would change it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../../docs/openapi.json", import.meta.url);
const target = new URL("../src/generated.ts", import.meta.url);
const HEAD = "// Made of docs/openapi.json by `npm run generate`.\n\n";

if (!existsSync(source)) fail("There is no docs/openapi.json.");
const types = HEAD + astToString(await openapiTS(source, { alphabetize: true }));
if (!process.argv.includes("--check")) writeFileSync(target, types);
else if (!existsSync(target) || readFileSync(target, "utf8") !== types) {
  fail("src/generated.ts is not what docs/openapi.json says. Run `npm run generate`.");
}

function fail(why) {
  console.error(why);
  process.exit(1);
}
