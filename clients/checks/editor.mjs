// An editor made of the official SDK of the Agent Client Protocol, for the checks in acp.mjs.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

/**
 * Starts the agent, introduces itself, and hands over to `work`. Leaves by closing the agent's standard input, and
 * waits for its end.
 *
 * `permit` answers a request for permission with the id of an option, or null to cancel it.
 */
export async function edit({ command, args, cwd, env }, { session, permit }, work) {
  const agent = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => agent.once("exit", (code, signal) => resolve({ code, signal })));
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  const updates = [];
  const watchers = new Set();
  const asked = [];
  const app = acp
    .client({ name: "checks" })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      updates.push({ session: params.sessionId, ...params.update });
      for (const watcher of watchers) watcher();
    })
    .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
      asked.push(params);
      const optionId = await permit?.(params);
      return { outcome: optionId ? { outcome: "selected", optionId } : { outcome: "cancelled" } };
    });
  const done = await app.connectWith(stream, async (ctx) => {
    const about = await ctx.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: session ? { session } : {},
    });
    const editor = { ctx, about, updates, asked, agent, until: (is) => until(updates, watchers, is) };
    return work(editor);
  });
  agent.stdin.end();
  return { done, end: await ended };
}

/** Waits until some update is as wanted. */
function until(updates, watchers, is) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("waited in vain for an update")), 20_000);
    const look = () => {
      const found = updates.find(is);
      if (!found) return;
      clearTimeout(timer);
      watchers.delete(look);
      resolve(found);
    };
    watchers.add(look);
    look();
  });
}

/** The text that came in updates of one kind. */
export function said(updates, kind) {
  return updates
    .filter((update) => update.sessionUpdate === kind && update.content.type === "text")
    .map((update) => update.content.text)
    .join("");
}

/** What became of a tool call: its first form, with each later one laid over it. */
export function calls(updates) {
  const all = new Map();
  for (const { sessionUpdate, session, ...update } of updates) {
    if (sessionUpdate === "tool_call") all.set(update.toolCallId, { ...update, statuses: [update.status ?? "pending"] });
    if (sessionUpdate !== "tool_call_update") continue;
    const call = all.get(update.toolCallId);
    if (update.status) call.statuses.push(update.status);
    Object.assign(call, update);
  }
  return [...all.values()];
}

export const text = (words) => [{ type: "text", text: words }];
