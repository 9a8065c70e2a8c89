// The SDK @anthropic-ai/sdk.

import Anthropic from "@anthropic-ai/sdk";

import { answerSchema, model, run, user, weather } from "./steps.mjs";

const client = new Anthropic();
const common = { model, max_tokens: 16 };
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }];

function told({ content, stop_reason, usage }) {
  const text = (type) => content.map((block) => (block.type === type ? block[type] : "")).join("");
  return {
    text: text("text"),
    thinking: text("thinking"),
    calls: content.filter(({ type }) => type === "tool_use").map(({ name, input }) => [name, input]),
    finish: stop_reason,
    tokens: usage.output_tokens,
  };
}

async function streamed(request) {
  let chunks = 0;
  const stream = client.messages.stream({ ...common, ...request }).on("text", () => chunks++);
  return { ...told(await stream.finalMessage()), chunks };
}

const ask = async (request) => told(await client.messages.create({ ...common, ...request }));

const steps = {
  plain: () => ask({ system: "Be brief.", messages: [user("Hello")] }),

  think: () => ask({ messages: [user("#think")] }),

  stream: () => streamed({ messages: [user("Stream this")] }),

  raw_stream: async () => {
    const deltas = [];
    const request = { ...common, messages: [user("Raw #unicode")], stream: true };
    for await (const event of await client.messages.create(request)) {
      if (event.type === "content_block_delta") deltas.push(event.delta.text);
    }
    return { text: deltas.join(""), chunks: deltas.length };
  },

  tool: () => ask({ tools, messages: [user("#tool in Paris?")] }),

  tool_stream: () => streamed({ tools, messages: [user("#tool in Paris, streamed?")] }),

  tool_result: () => {
    const call = { type: "tool_use", id: "toolu_1", name: weather.name, input: { city: "Paris" } };
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: "18 C, sunny" };
    const messages = [user("Weather in Paris?"), { role: "assistant", content: [call] }, user([result])];
    return ask({ tools, messages });
  },

  structured: async () => {
    const output_config = { format: { type: "json_schema", schema: answerSchema } };
    const answer = await ask({ output_config, messages: [user("#json")] });
    return { ...answer, parsed: JSON.parse(answer.text) };
  },

  turns: async () => {
    const messages = [user("Good morning")];
    const { content } = await client.messages.create({ ...common, messages });
    return ask({ messages: [...messages, { role: "assistant", content }, user("And now?")] });
  },

  concurrent: async () => {
    const questions = ["One", "#unicode", "#json", "#think"];
    return { answers: await Promise.all(questions.map((text) => ask({ messages: [user(text)] }))) };
  },

  models: async () => {
    const models = [];
    for await (const { id } of client.models.list()) models.push(id);
    return { models };
  },

  // The last one: Ollama has no such endpoint.
  count: () => client.messages.countTokens({ model, messages: [user("Hello")] }),
};

await run({ anthropic: steps });
