// The AI SDK: streamText and generateText with its own loop of tools.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool as define } from "ai";
import { description, mode, prompt, root, run, shape, texts, tool } from "./work.mjs";

const provider = createOpenAICompatible({ name: "check", baseURL: `${root}/v1`, apiKey: "none", includeUsage: true });
const messages = [];

await run(async (question) => {
  messages.push({ role: "user", content: question });
  const failed = [];
  const asked = {
    model: provider("fake-model"),
    system: prompt,
    messages,
    maxRetries: 0,
    stopWhen: stepCountIs(50),
    tools: { readings: define({ description, inputSchema: jsonSchema(shape), execute: tool }) },
    onError: ({ error }) => failed.push(error),
  };
  let answer;
  if (mode.includes("stream")) {
    answer = streamText(asked);
    await answer.consumeStream();
    if (failed.length) throw failed[0];
  } else {
    answer = await generateText(asked);
  }
  texts.push(...(await answer.steps).map(({ text }) => text));
  messages.push(...(await answer.response).messages);
});
