import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Longhaul } from "../src/index.js";

/** What the client has no method for: doors, pages and what `request` is for. */
const WITHOUT = [/^\/(web|open|healthz|readyz|metrics|openapi)/, /^\/$/, /^\/v1/, /^\/api\/(ui|ag-ui)\b/, /^\/api\/(login|logout|render|models|agents|search|settings)\b/, /\/llm$/];

interface Description {
  paths: Record<string, Record<string, { parameters?: { name: string; in: string }[] }>>;
}

const source = new URL("../../../../../docs/openapi.json", import.meta.url);

test("each route that the client asks is described, and each one described has a method", async () => {
  const { paths } = JSON.parse(await readFile(source, "utf8")) as Description;
  const asked: Request[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    asked.push(new Request(input, init));
    return Response.json({ messages: [], hasMore: false, sessions: [], approvals: [], compactions: [], orders: [] });
  };
  const client = new Longhaul({ baseUrl: "http://box.lan", fetch, retry: { attempts: 1 } });
  const { sessions, queue, blobs, approvals } = client;
  await Promise.all([
    client.sendMessage({ content: "hi" }),
    client.events("ID", { after: 1 }).next().catch(() => {}),
    client.messagesPage("ID", { after: 1, limit: 1 }),
    client.messagesPage("ID", { before: 1 }),
    sessions.create(), sessions.list({ limit: 1 }), sessions.get("ID"), sessions.rename("ID", "T"), sessions.delete("ID"),
    sessions.fork("ID"), sessions.export("ID", { format: "markdown" }),
    queue.list("ID"), queue.edit("ID", "hi", { sessionId: "ID" }), queue.remove("ID", { sessionId: "ID" }), queue.clear("ID"),
    client.cancel("ID"), client.resume("ID"), client.retry("ID"), client.context("ID"), client.compact("ID"), client.compactions("ID"),
    client.undo("ID", "ID"), client.release("ID", "ID"),
    client.orders("ID", { all: true }), client.pinOrder("ID", { text: "x" }), client.editOrder("ID", "ID", "x"), client.removeOrder("ID", "ID"),
    client.recall("ID", { handle: "lh:1", range: "1-2" }), client.recall("ID", { query: "x", limit: 1 }),
    blobs.upload("ID", new Blob(["x"]), { name: "n" }), blobs.download("ID", "ID"),
    approvals.list({ sessionId: "ID" }), approvals.decide("ID", "allow"),
  ]);
  const met = new Set<string>();
  for (const request of asked) {
    const url = new URL(request.url);
    const method = request.method.toLowerCase();
    const path = Object.keys(paths).find((path) => path.replace(/\{\w+\}/g, "ID") === url.pathname);
    const operation = paths[path ?? ""]?.[method];
    assert.ok(operation, `${method} ${url.pathname} is not described`);
    const known = (operation.parameters ?? []).filter((parameter) => parameter.in === "query").map((parameter) => parameter.name);
    for (const name of url.searchParams.keys()) assert.ok(known.includes(name), `${method} ${path} takes no ${name}`);
    met.add(`${method} ${path}`);
  }
  const described = Object.entries(paths).flatMap(([path, item]) => Object.keys(item).map((method) => [method, path] as const));
  const missing = described.filter(([method, path]) => !met.has(`${method} ${path}`) && !WITHOUT.some((pattern) => pattern.test(path)));
  assert.deepEqual(missing, []);
});
