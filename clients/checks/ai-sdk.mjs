// The AI SDK at the other end of `POST /api/ui/chat`: its transport, and the chat that `useChat` is made of.

import assert from "node:assert/strict";
import { Chat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  readUIMessageStream,
} from "ai";
import { serve, until } from "./server.mjs";

const { slow } = JSON.parse(process.env.LONGHAUL_CHECK);
const texts = (message) => message.parts.filter(({ type }) => type === "text").map(({ text }) => text);
const of = (message, type) => message.parts.filter((part) => part.type === type);

await serve(async ({ url, headers, ask }) => {
  const transport = new DefaultChatTransport({ api: `${url}/api/ui/chat`, headers });
  const heard = { data: [], errors: [], ends: [] };
  const open = (id, more) =>
    new Chat({
      id,
      transport,
      onData: (part) => heard.data.push(part),
      onError: (error) => heard.errors.push(error),
      onFinish: (end) => heard.ends.push(end),
      onToolCall: () => assert.fail("the tools run on the server"),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      ...more,
    });
  const chat = open("check-1");
  const newest = () => chat.messages.at(-1);
  const begun = (count) => () => chat.messages.length === count && texts(newest()).join("").length > 20;

  // Tools and reasoning.
  await chat.sendMessage({ text: "look" });
  assert.deepEqual(heard.errors, []);
  assert.equal(chat.status, "ready");
  assert.equal(chat.messages.length, 2);
  assert.deepEqual(texts(newest()), ["I look. ", "There is one file."]);
  const [call] = of(newest(), "dynamic-tool");
  assert.equal(call.toolName, "ls");
  assert.equal(call.state, "output-available");
  assert.deepEqual(call.input, { path: "." });
  assert.match(call.output, /notes\.md/);
  assert.equal(of(newest(), "reasoning")[0].text, "One file, then.");
  assert.equal(of(newest(), "step-start").length, 2);
  assert.ok(newest().parts.every(({ state }) => !["streaming", "input-streaming"].includes(state)));
  assert.equal(of(newest(), "data-context").length, 1, "one meter, kept up to date");
  assert.ok(of(newest(), "data-context")[0].data.total > 0);
  assert.equal(newest().metadata.sessionId, "check-1");
  assert.equal(newest().metadata.finishReason, "stop");
  assert.ok(newest().metadata.usage.totalTokens > 0);
  assert.equal(heard.ends.at(-1).finishReason, "stop");

  // A second turn: the session remembers, whatever the client sends along.
  chat.messages = chat.messages.slice(-1);
  await chat.sendMessage({ text: "and now?" });
  assert.deepEqual(texts(newest()), ["The second answer."]);
  const { messages } = await ask("GET", "/api/sessions/check-1/messages");
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant", "tool", "assistant", "user", "assistant"],
  );

  // A tool that asks, allowed; and one that is denied.
  await chat.sendMessage({ text: "write" });
  const asked = of(newest(), "dynamic-tool")[0];
  assert.equal(asked.state, "approval-requested");
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
  await until("it is written", () => chat.status === "ready" && texts(newest()).includes("It is written."));
  assert.equal(of(newest(), "dynamic-tool")[0].state, "output-available");
  assert.equal(chat.messages.length, 5, "the same message goes on");
  await chat.sendMessage({ text: "write again" });
  const again = of(newest(), "dynamic-tool")[0];
  await chat.addToolApprovalResponse({ id: again.approval.id, approved: false, reason: "once is enough" });
  await until("it is told", () => chat.status === "ready" && texts(newest()).includes("Then not."));
  assert.equal(of(newest(), "dynamic-tool")[0].state, "output-denied");
  assert.deepEqual(heard.errors, []);

  // Who leaves stops nothing, comes back and has it all, once.
  const count = chat.messages.length;
  const sent = chat.sendMessage({ text: "talk" });
  await until("some words", begun(count + 2));
  await chat.stop();
  await sent;
  const partial = texts(newest()).join("");
  assert.ok(partial.length < slow.length, "it was left in the middle");
  const elsewhere = open("check-1");
  await Promise.all([chat.resumeStream(), elsewhere.resumeStream()]);
  assert.equal(chat.messages.length, count + 2);
  assert.deepEqual(texts(newest()), [slow]);
  assert.deepEqual(texts(elsewhere.messages.at(-1)), [slow]);
  assert.equal(elsewhere.messages.at(-1).id, newest().id);
  assert.equal(await transport.reconnectToStream({ chatId: "check-1" }), null, "nothing is on its way");
  assert.equal(await transport.reconnectToStream({ chatId: "never begun" }), null);

  // A cancel is a call; the chat ends with what there was.
  const cancelled = chat.sendMessage({ text: "talk more" });
  await until("some words", begun(count + 4));
  await ask("POST", "/api/sessions/check-1/cancel", {});
  await cancelled;
  assert.equal(chat.status, "ready");
  assert.equal(newest().metadata.finishReason, "cancelled");
  assert.deepEqual(heard.errors, []);

  // What fails is an error, and trying again goes on.
  await chat.sendMessage({ text: "fail" });
  assert.equal(chat.status, "error");
  assert.match(chat.error.message, /broken on purpose.*\(invalid-request\)/);
  await chat.regenerate();
  assert.equal(chat.status, "ready");
  assert.deepEqual(texts(newest()), ["Better."]);
  await chat.regenerate();
  assert.equal(chat.status, "error");
  assert.match(chat.error.message, /has its answer/);

  // Without a chat: the stream alone, into a conversation of another name.
  const stream = await transport.sendMessages({
    chatId: "by hand: 1",
    messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }],
    trigger: "submit-message",
  });
  let last;
  for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;
  assert.deepEqual(texts(last), ["By hand."]);

  // A wrong token is told as any other error.
  const stranger = open("check-2", { transport: new DefaultChatTransport({ api: `${url}/api/ui/chat` }) });
  await stranger.sendMessage({ text: "hello" });
  assert.match(stranger.error.message, /"code":"auth"/);
});
console.log("{}");
