// openai for Node: Chat Completions and Responses, whole and streamed.

import OpenAI from "openai";
import { description, mode, prompt, root, run, shape, texts, tool } from "./work.mjs";

const client = new OpenAI({ baseURL: `${root}/v1`, apiKey: "none", maxRetries: 0 });
const model = "fake-model";
const messages = [{ role: "system", content: prompt }];
const items = [];

async function chat(question) {
  const tools = [{ type: "function", function: { name: "readings", description, parameters: shape } }];
  messages.push({ role: "user", content: question });
  for (;;) {
    const asked = { model, messages, tools };
    const answer = mode.includes("stream")
      ? await client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } }).finalChatCompletion()
      : await client.chat.completions.create(asked);
    const { content, tool_calls: calls } = answer.choices[0].message;
    texts.push(content);
    const plain = calls?.map(({ id, type, function: { name, arguments: args } }) => ({ id, type, function: { name, arguments: args } }));
    messages.push({ role: "assistant", content, ...(plain?.length ? { tool_calls: plain } : {}) });
    if (!plain?.length) return;
    for (const { id, function: called } of plain) {
      messages.push({ role: "tool", tool_call_id: id, content: tool(called.arguments) });
    }
  }
}

async function responses(question) {
  const tools = [{ type: "function", name: "readings", description, parameters: shape, strict: false }];
  items.push({ role: "user", content: question });
  for (;;) {
    const asked = { model, instructions: prompt, input: items, tools, store: false, include: ["reasoning.encrypted_content"] };
    const answer = mode.includes("stream")
      ? await client.responses.stream(asked).finalResponse()
      : await client.responses.create(asked);
    texts.push(answer.output_text);
    items.push(...answer.output.map(({ parsed_arguments: _, status: __, ...item }) => item));
    const calls = answer.output.filter(({ type }) => type === "function_call");
    if (!calls.length) return;
    for (const { call_id, arguments: args } of calls) {
      items.push({ type: "function_call_output", call_id, output: tool(args) });
    }
  }
}

await run(mode.includes("responses") ? responses : chat);
