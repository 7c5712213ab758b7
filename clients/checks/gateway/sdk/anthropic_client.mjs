// Anthropic's SDK for Node: Messages, whole and streamed, with thinking and count_tokens.

import Anthropic from "@anthropic-ai/sdk";
import { description, mode, prompt, root, run, shape, texts, tool } from "./work.mjs";

const client = new Anthropic({ baseURL: root, apiKey: "none", maxRetries: 0 });
const messages = [];
const tools = [{ name: "readings", description, input_schema: shape }];

await run(async (question) => {
  messages.push({ role: "user", content: question });
  for (;;) {
    const asked = { model: "fake-model", system: prompt, messages, tools };
    const { input_tokens: count } = await client.messages.countTokens(asked);
    if (!(count > 0)) throw new Error("nothing was counted");
    const thinking = mode.includes("think") ? { thinking: { type: "enabled", budget_tokens: 1024 } } : {};
    const limited = { ...asked, ...thinking, max_tokens: 2048 };
    const answer = mode.includes("stream")
      ? await client.messages.stream(limited).finalMessage()
      : await client.messages.create(limited);
    texts.push(answer.content.filter(({ type }) => type === "text").map(({ text }) => text).join(""));
    messages.push({ role: "assistant", content: answer.content });
    const calls = answer.content.filter(({ type }) => type === "tool_use");
    if (!calls.length) return;
    const results = calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: tool(input) }));
    messages.push({ role: "user", content: results });
  }
});
