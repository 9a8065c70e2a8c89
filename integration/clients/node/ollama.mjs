// The SDK ollama: chat and generate. It does not look at OLLAMA_HOST by itself.

import { Ollama } from "ollama";

import { answerSchema, model, run, user, weather } from "./steps.mjs";

const client = new Ollama({ host: process.env.OLLAMA_HOST });
const common = { model, options: { temperature: 0, num_predict: 16 } };
const definition = { name: weather.name, description: weather.description, parameters: weather.schema };
const tools = [{ type: "function", function: definition }];

function told({ message, done_reason, eval_count }) {
  return {
    text: message.content,
    thinking: message.thinking ?? null,
    calls: (message.tool_calls ?? []).map(({ function: { name, arguments: given } }) => [name, given]),
    finish: done_reason,
    tokens: eval_count,
  };
}

async function streamed(request) {
  const pieces = [];
  const calls = [];
  let last;
  for await (const chunk of await client.chat({ ...common, ...request, stream: true })) {
    if (chunk.message.content) pieces.push(chunk.message.content);
    last = told(chunk);
    calls.push(...last.calls);
  }
  return { ...last, text: pieces.join(""), calls, chunks: pieces.length };
}

const ask = async (request) => told(await client.chat({ ...common, ...request }));

const steps = {
  plain: () => ask({ messages: [{ role: "system", content: "Be brief." }, user("Hello")] }),

  stream: () => streamed({ messages: [user("Stream #unicode")] }),

  think: () => ask({ messages: [user("#think")], think: true }),

  tool: () => ask({ tools, messages: [user("#tool in Paris?")] }),

  tool_stream: () => streamed({ tools, messages: [user("#tool in Paris, streamed?")] }),

  tool_result: () => {
    const call = { function: { name: weather.name, arguments: { city: "Paris" } } };
    const messages = [
      user("Weather in Paris?"),
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_name: weather.name, content: "18 C, sunny" },
    ];
    return ask({ tools, messages });
  },

  structured: async () => {
    const answer = await ask({ messages: [user("#json")], format: answerSchema, think: false });
    return { ...answer, parsed: JSON.parse(answer.text) };
  },

  turns: async () => {
    const messages = [user("Good morning")];
    const { message } = await client.chat({ ...common, messages });
    return ask({ messages: [...messages, message, user("And now?")] });
  },

  concurrent: async () => {
    const questions = ["One", "#unicode", "#json", "#dice"];
    return { answers: await Promise.all(questions.map((text) => ask({ messages: [user(text)] }))) };
  },

  generate: async () => {
    const answer = await client.generate({ ...common, prompt: "Hello", system: "Be brief." });
    return { text: answer.response, finish: answer.done_reason, tokens: answer.eval_count };
  },

  models: async () => ({ models: (await client.list()).models.map(({ model: name }) => name) }),
};

await run({ ollama: steps });
