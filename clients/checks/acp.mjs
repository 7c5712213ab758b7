// `longhaul acp` at the other end of the official client. One argument names the check; LONGHAUL_CHECK says how the
// agent is started: {command, args, cwd, env, ...}. What the check found out goes to standard output as JSON.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as acp from "@agentclientprotocol/sdk";
import { calls, edit, said, text } from "./editor.mjs";

const given = JSON.parse(process.env.LONGHAUL_CHECK);
const { agent } = acp.methods;
const kinds = (updates) => updates.map((update) => update.sessionUpdate);
const begin = (ctx, cwd = given.cwd) => ctx.request(agent.session.new, { cwd, mcpServers: [] });
const ask = (ctx, sessionId, prompt) => ctx.request(agent.session.prompt, { sessionId, prompt });

const checks = {
  /** A whole turn with everything that a prompt can hold, and a tool that only looks. */
  async turn() {
    return edit(given, {}, async ({ ctx, about, updates, until }) => {
      assert.equal(about.protocolVersion, acp.PROTOCOL_VERSION);
      assert.equal(about.agentInfo.name, "longhaul");
      const { loadSession, promptCapabilities, mcpCapabilities, sessionCapabilities } = about.agentCapabilities;
      assert.equal(loadSession, true);
      assert.deepEqual(promptCapabilities, { image: true, audio: false, embeddedContext: true });
      assert.equal(mcpCapabilities.http, true);
      assert.deepEqual(sessionCapabilities, { list: {}, delete: {}, resume: {}, close: {} });

      await writeFile(join(given.cwd, "notes.txt"), "the port is 8080\n");
      const { sessionId } = await begin(ctx);
      const offered = await until((update) => update.sessionUpdate === "available_commands_update");
      assert.deepEqual(offered.availableCommands.map(({ name }) => name).sort(), ["compact", "compactions", "context", "pin", "undo", "unpin"]);

      const uri = pathToFileURL(join(given.cwd, "src/a b.rs")).href;
      const { stopReason } = await ask(ctx, sessionId, [
        { type: "text", text: "Compare " },
        { type: "resource_link", name: "a b.rs", uri },
        { type: "text", text: " with this:" },
        { type: "resource", resource: { uri: `${uri}#L1-2`, text: "fn main() {}\n", mimeType: "text/x-rust" } },
        { type: "image", data: given.image, mimeType: "image/png" },
      ]);
      assert.equal(stopReason, "end_turn");
      assert.equal(said(updates, "agent_message_chunk"), "I look. The port is 8080.");
      assert.equal(said(updates, "user_message_chunk"), "", "the editor shows what its user typed");
      const [read] = calls(updates);
      assert.deepEqual(read.statuses, ["pending", "in_progress", "completed"]);
      assert.deepEqual([read.kind, read.title, read.name], ["read", "Read `notes.txt`", "read"]);
      assert.deepEqual(read.locations, [{ path: join(given.cwd, "notes.txt") }]);
      assert.deepEqual(read.rawInput, { path: "notes.txt" });
      assert.match(read.content[0].content.text, /^```\n[^]*the port is 8080[^]*```$/);
      assert.match(read.rawOutput.output, /the port is 8080/);
      const meter = updates.filter((update) => update.sessionUpdate === "usage_update");
      assert.equal(meter.length, 2, "one after each step");
      assert.ok(meter.every(({ used, size }) => used > 0 && size === 16_000));
      const named = updates.find((update) => update.sessionUpdate === "session_info_update");
      assert.match(named.title, /^Compare /);
      // What belongs to the turn came before its end.
      assert.equal(kinds(updates).at(-1), "usage_update");
      return { sessionId };
    });
  },

  /** A person allows one change and rejects another. */
  async permit() {
    const answers = ["allow", "reject", null];
    return edit(given, { permit: () => answers.shift() }, async ({ ctx, updates, asked }) => {
      await writeFile(join(given.cwd, "old.txt"), "before\n");
      const { sessionId } = await begin(ctx);
      for (const words of ["change it", "and again", "and again"]) {
        assert.equal((await ask(ctx, sessionId, text(words))).stopReason, "end_turn");
      }
      const [allowed, rejected, cancelled] = calls(updates);
      assert.deepEqual(asked[0].options.map(({ kind }) => kind), ["allow_once", "reject_once"]);
      assert.equal(asked[0].toolCall.toolCallId, allowed.toolCallId);
      const change = { type: "diff", path: join(given.cwd, "old.txt"), oldText: "before\n", newText: "after\n" };
      assert.deepEqual(asked[0].toolCall.content, [change], "what is asked is what is shown");
      assert.deepEqual(allowed.statuses, ["pending", "in_progress", "completed"]);
      assert.deepEqual(allowed.content[0], change);
      assert.equal(await readFile(join(given.cwd, "old.txt"), "utf8"), "after\n");
      for (const call of [rejected, cancelled]) assert.deepEqual(call.statuses, ["pending", "failed"]);
      return { sessionId };
    });
  },

  /** A cancel in the middle of an answer, and in the middle of a question; then the next prompt. */
  async cancel() {
    let answer;
    const permit = () => new Promise((resolve) => (answer = resolve));
    return edit(given, { permit }, async ({ ctx, updates, until, asked }) => {
      const { sessionId } = await begin(ctx);
      const first = ask(ctx, sessionId, text("tell me"));
      await until((update) => update.sessionUpdate === "agent_message_chunk");
      await ctx.notify(agent.session.cancel, { sessionId });
      assert.equal((await first).stopReason, "cancelled");
      assert.match(said(updates, "agent_message_chunk"), /^The beginning /);

      const second = ask(ctx, sessionId, text("run it"));
      while (asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      await ctx.notify(agent.session.cancel, { sessionId });
      answer?.(null);
      assert.equal((await second).stopReason, "cancelled");
      assert.deepEqual(calls(updates)[0].statuses, ["pending", "failed"]);

      // A prompt and its cancel in one breath, and one right behind them.
      const third = ask(ctx, sessionId, text("never mind"));
      const cancelled = ctx.notify(agent.session.cancel, { sessionId });
      const fourth = ask(ctx, sessionId, text("still there?"));
      await cancelled;
      assert.equal((await third).stopReason, "cancelled");
      assert.equal((await fourth).stopReason, "end_turn");
      return { sessionId };
    });
  },

  /** What was said before is told again; what is resumed is not; what is deleted is gone. */
  async load() {
    const sessionId = given.session;
    return edit(given, {}, async ({ ctx, updates }) => {
      const { sessions } = await ctx.request(agent.session.list, { cwd: given.cwd });
      const [found] = sessions.filter((session) => session.sessionId === sessionId);
      assert.equal(found.cwd, given.cwd);
      assert.match(found.title, /^Compare /);
      assert.ok(!Number.isNaN(Date.parse(found.updatedAt)), found.updatedAt);
      const elsewhere = await ctx.request(agent.session.list, { cwd: "/" });
      assert.deepEqual(elsewhere.sessions, []);

      const where = { sessionId, cwd: given.cwd, mcpServers: [] };
      await ctx.request(agent.session.load, where);
      const loaded = updates.splice(0);
      const shown = loaded.filter((update) => update.sessionUpdate === "user_message_chunk");
      assert.deepEqual(shown.map(({ content }) => content.type), ["text", "resource", "image"]);
      assert.match(shown[0].content.text, /^Compare \[?.*a b\.rs.* with this:$/);
      assert.equal(shown[1].content.resource.text, "fn main() {}\n");
      assert.match(shown[1].content.resource.uri, /src\/a%20b\.rs#L1-2$/);
      assert.equal(shown[2].content.data, given.image);
      assert.equal(said(loaded, "agent_message_chunk"), "I look. The port is 8080.");
      assert.deepEqual(calls(loaded).map(({ statuses }) => statuses.at(-1)), ["completed"]);
      assert.deepEqual(kinds(loaded).slice(-2), ["available_commands_update", "usage_update"]);
      assert.equal(kinds(loaded).filter((kind) => kind === "usage_update").length, 1, "the meter is of now");

      await ctx.request(agent.session.close, { sessionId });
      await assert.rejects(ask(ctx, sessionId, text("hello")), { code: -32002 });
      await ctx.request(agent.session.resume, where);
      assert.ok(updates.every((update) => !/message|tool/.test(update.sessionUpdate)), "nothing is told again");
      assert.equal((await ask(ctx, sessionId, text("Thanks"))).stopReason, "end_turn");

      await ctx.request(agent.session.delete, { sessionId });
      await assert.rejects(ctx.request(agent.session.load, where), { code: -32002 });
      const after = await ctx.request(agent.session.list, {});
      assert.ok(after.sessions.every((session) => session.sessionId !== sessionId));
      return {};
    });
  },

  /** Room is made, shown as the editor can show it, and undone. */
  async compact() {
    const shows = given.shows;
    return edit(given, { session: shows }, async ({ ctx, updates }) => {
      const { sessionId } = await begin(ctx);
      for (const words of ["one", "two", "three", "four"]) {
        await ask(ctx, sessionId, text(`${words}: ${"many words of no great weight ".repeat(250)}`));
      }
      updates.length = 0;
      assert.equal((await ask(ctx, sessionId, text("/compact mind the ports"))).stopReason, "end_turn");
      const made = updates.splice(0);
      const rows = made.filter((update) => update.sessionUpdate === "compaction_update");
      const notices = made.filter((update) => update.sessionUpdate === "notice");
      if (shows?.compaction) {
        assert.deepEqual(rows.map(({ status }) => status), ["in_progress", "completed"], JSON.stringify(made));
        assert.equal(new Set(rows.map(({ compactionId }) => compactionId)).size, 1);
        assert.match(rows[1].summary[0].text, /^Context compacted: .* → .* tokens/);
        assert.match(rows[1].summary[1].text, /the ports are kept/);
      } else if (shows?.notices) {
        assert.match(notices[0].title, /^Context compacted: /);
      } else {
        assert.match(said(made, "agent_thought_chunk"), /^Context compacted: /);
      }
      assert.equal(rows.length, shows?.compaction ? 2 : 0);
      assert.equal(notices.length, shows?.notices && !shows.compaction ? 1 : 0);
      assert.match(said(made, "agent_message_chunk"), /^Compacted: .* → .* tokens/);
      const small = made.findLast((update) => update.sessionUpdate === "usage_update").used;

      await ask(ctx, sessionId, text("/undo"));
      const undone = updates.splice(0);
      assert.match(said(undone, "agent_message_chunk"), /^undone e\d+ /);
      const large = undone.findLast((update) => update.sessionUpdate === "usage_update").used;
      assert.ok(large > small, `${large} > ${small}`);

      await ask(ctx, sessionId, text("/context"));
      assert.match(said(updates.splice(0), "agent_message_chunk"), /^```\ncontext of fake-1 /);
      await ask(ctx, sessionId, text("/undo"));
      assert.match(said(updates.splice(0), "agent_message_chunk"), /^Not done: nothing to undo/);
      return { sessionId };
    });
  },

  /** How turns end otherwise than well. */
  async ends() {
    return edit(given, {}, async ({ ctx, updates }) => {
      const { sessionId } = await begin(ctx);
      assert.equal((await ask(ctx, sessionId, text("tell me"))).stopReason, "max_tokens");
      assert.equal((await ask(ctx, sessionId, text("look"))).stopReason, "max_turn_requests");
      assert.match(said(updates, "agent_message_chunk"), /step limit/);
      assert.equal((await ask(ctx, sessionId, text("do harm"))).stopReason, "refusal");
      const failed = await ask(ctx, sessionId, text("hello")).catch((error) => error);
      assert.match(failed.message, /Incorrect API key/);
      assert.equal(failed.data.code, "auth");
      await assert.rejects(ask(ctx, "no-such-session", text("hello")), { code: -32002 });
      await assert.rejects(begin(ctx, "/no/such/folder"), /not a folder/);
      await assert.rejects(ask(ctx, sessionId, [{ type: "audio", data: "AQ==", mimeType: "audio/wav" }]), {
        code: -32602,
      });
      return { sessionId };
    });
  },

  /** Two sessions at once, each in its own folder. */
  async folders() {
    return edit(given, {}, async ({ ctx, updates }) => {
      const [here, there] = await Promise.all([begin(ctx), begin(ctx, given.other)]);
      await writeFile(join(given.cwd, "who.txt"), "here\n");
      await writeFile(join(given.other, "who.txt"), "there\n");
      for (const { sessionId } of [here, there]) await ask(ctx, sessionId, text("who?"));
      const read = (id) => calls(updates.filter((update) => update.session === id))[0];
      assert.match(read(here.sessionId).rawOutput.output, /here/);
      assert.match(read(there.sessionId).rawOutput.output, /there/);
      assert.equal(read(there.sessionId).locations[0].path, join(given.other, "who.txt"));
      return {};
    });
  },

  /** A message sent while the agent works enters at its next step. */
  async steer() {
    let answer;
    const permit = () => new Promise((resolve) => (answer = resolve));
    return edit(given, { permit }, async ({ ctx, updates, asked }) => {
      const { sessionId } = await begin(ctx);
      const first = ask(ctx, sessionId, text("make a file"));
      while (asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      const second = ask(ctx, sessionId, text("call it b.txt"));
      await new Promise((resolve) => setTimeout(resolve, 200));
      answer("allow");
      assert.deepEqual([await first, await second].map(({ stopReason }) => stopReason), ["end_turn", "end_turn"]);
      assert.equal(said(updates, "agent_message_chunk"), "I look. Both done.");
      return { sessionId };
    });
  },
};

const { done, end } = await checks[process.argv[2]]();
assert.deepEqual(end, { code: 0, signal: null }, "the agent ends well when its editor leaves");
console.log(JSON.stringify(done));
