// `longhaul mcp` at the other end of the official client. LONGHAUL_CHECK says how the server is started, which
// sessions there are, and what they hold.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const { command, args, cwd, env, older, newer } = JSON.parse(process.env.LONGHAUL_CHECK);
const client = new Client({ name: "checks", version: "1" });
await client.connect(new StdioClientTransport({ command, args, cwd, env }));
const call = (name, input) => client.callTool({ name, arguments: input });
const words = async (name, input) => {
  const { content, isError } = await call(name, input);
  assert.ok(!isError, JSON.stringify(content));
  return content.map(({ text }) => text);
};

assert.equal(client.getServerVersion().name, "longhaul");
assert.match(client.getInstructions(), /search_history/);
const { tools } = await client.listTools();
assert.deepEqual(tools.map(({ name }) => name), ["recall", "context_status", "compact", "search_history"]);
for (const { name, annotations, inputSchema, description } of tools) {
  assert.equal(annotations.readOnlyHint, name !== "compact");
  assert.equal(annotations.destructiveHint, false);
  assert.equal(inputSchema.type, "object");
  assert.ok(description.length > 40);
}

// The newest session, unless another is named.
const [found, about] = await words("recall", { query: "zebra" });
assert.match(found, /<user lh:\d+>\n.*zebra/);
assert.match(about, new RegExp(newer));
const handle = found.match(/lh:\d+/)[0];
const [original] = await words("recall", { handle });
assert.equal(original, "the zebra is 47 years old");
assert.equal((await words("recall", { handle, range: "4-9" }))[0].split("\n")[0], "zebra");
const [other, aboutOther] = await words("recall", { session: older.slice(0, 30), query: "walrus" });
assert.match(other, /walrus/);
assert.match(aboutOther, new RegExp(older));

const status = await call("context_status", {});
assert.equal(status.structuredContent.session, newer);
assert.equal(status.structuredContent.window, 16000);
assert.ok(status.structuredContent.total > 0);
assert.deepEqual(JSON.parse(status.content[0].text), status.structuredContent);

const hits = (await words("search_history", { query: "walrus" }))[0];
assert.match(hits, new RegExp(`session ${older} `));
assert.match(hits, /<user lh:\d+>\n.*walrus/);
assert.match(hits, /2 sessions searched/);
assert.match((await words("search_history", { query: "xylophone" }))[0], /nothing matches/);

assert.match((await words("compact", { dryRun: true }))[0], /would do/);
assert.match((await words("compact", { session: older, instructions: "mind the walrus" }))[0], /nothing to compact/);

// What is wrong is said, and the server stays; so does the data folder for who comes next.
const refused = async (name, input) => {
  const { content, isError } = await call(name, input);
  assert.equal(isError, true);
  return content[0].text;
};
assert.match(await refused("recall", {}), /`handle` or a `query`/);
assert.match(await refused("recall", { handle: "lh:9999" }), /nothing is stored/);
assert.match(await refused("recall", { session: "zzz", query: "x" }), /no session begins with/);
assert.match(await refused("compact", { session: "zzz" }), /no session begins with/);
assert.match((await words("compact", {}))[0], /nothing to compact/);
assert.match(await refused("search_history", { query: "x", limit: 1000 }), /between 1 and 20/);
await assert.rejects(call("forget", {}), { code: -32602 });
assert.match((await words("recall", { query: "zebra" }))[0], /zebra/);
await client.close();
console.log("{}");
