// The SDK openai: chat completions and responses.

import OpenAI from "openai";

import { answerSchema, model, run, user, weather } from "./steps.mjs";

const client = new OpenAI();
const questions = ["One", "#unicode", "#json", "#dice"];
const definition = { name: weather.name, description: weather.description, parameters: weather.schema };
const call = { name: weather.name, arguments: '{"city": "Paris"}' };
const format = { type: "json_schema", name: "answer", schema: answerSchema, strict: true };

function chatTold({ choices: [{ message, finish_reason }], usage }) {
  return {
    text: message.content,
    calls: (message.tool_calls ?? []).map(({ function: { name, arguments: given } }) => [name, given]),
    finish: finish_reason,
    tokens: usage.completion_tokens,
  };
}

const common = { model, max_completion_tokens: 16, temperature: 0 };
const tools = [{ type: "function", function: definition }];
const complete = (request) => client.chat.completions.create({ ...common, ...request });
const chat = async (request) => chatTold(await complete(request));

const chatSteps = {
  plain: () => chat({ messages: [{ role: "system", content: "Be brief." }, user("Hello")] }),

  stream: async () => {
    const pieces = [];
    let finish, tokens;
    const options = { stream: true, stream_options: { include_usage: true } };
    for await (const chunk of await complete({ messages: [user("Stream #unicode")], ...options })) {
      for (const { delta, finish_reason } of chunk.choices) {
        if (delta.content) pieces.push(delta.content);
        finish = finish_reason ?? finish;
      }
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    return { text: pieces.join(""), chunks: pieces.length, finish, tokens };
  },

  tool: () => chat({ tools, messages: [user("#tool in Paris?")] }),

  tool_stream: async () => {
    const messages = [user("#tool in Paris, streamed?")];
    const request = { ...common, tools, messages, stream_options: { include_usage: true } };
    return chatTold(await client.chat.completions.stream(request).finalChatCompletion());
  },

  tool_result: () => {
    const messages = [
      user("Weather in Paris?"),
      { role: "assistant", tool_calls: [{ id: "call_1", type: "function", function: call }] },
      { role: "tool", tool_call_id: "call_1", content: "18 C, sunny" },
    ];
    return chat({ tools, messages });
  },

  structured: async () => {
    const { type, ...json_schema } = format;
    const response_format = { type, json_schema };
    const request = { ...common, messages: [user("#json")], response_format, reasoning_effort: "none" };
    const completion = await client.chat.completions.parse(request);
    return { ...chatTold(completion), parsed: JSON.parse(completion.choices[0].message.content) };
  },

  turns: async () => {
    const messages = [user("Good morning")];
    const first = await complete({ messages });
    return chat({ messages: [...messages, first.choices[0].message, user("And now?")] });
  },

  concurrent: async () => {
    return { answers: await Promise.all(questions.map((text) => chat({ messages: [user(text)] }))) };
  },

  models: async () => {
    const models = [];
    for await (const { id } of client.models.list()) models.push(id);
    return { models };
  },
};

function responsesTold({ output_text, output, status, usage }) {
  const calls = output.filter(({ type }) => type === "function_call");
  const text = (item) => (item.content ?? []).map((part) => part.text).join("");
  return {
    text: output_text ?? output.filter(({ type }) => type === "message").map(text).join(""),
    calls: calls.map(({ name, arguments: given }) => [name, given]),
    finish: status,
    tokens: usage.output_tokens,
  };
}

const responsesCommon = { model, max_output_tokens: 16, temperature: 0 };
const responsesTools = [{ type: "function", strict: false, ...definition }];
const create = (request) => client.responses.create({ ...responsesCommon, ...request });
const respond = async (request) => responsesTold(await create(request));

async function respondStreamed(request) {
  let chunks = 0;
  let last;
  for await (const event of await create({ ...request, stream: true })) {
    if (event.type === "response.output_text.delta") chunks++;
    last = event;
  }
  return { ...responsesTold(last.response), chunks };
}

const responsesSteps = {
  plain: () => respond({ instructions: "Be brief.", input: "Hello" }),

  stream: () => respondStreamed({ input: "Stream this" }),

  tool: () => respond({ tools: responsesTools, input: "#tool in Paris?" }),

  tool_stream: () => respondStreamed({ tools: responsesTools, input: "#tool in Paris, streamed?" }),

  tool_result: () => {
    const input = [
      user("Weather in Paris?"),
      { type: "function_call", call_id: "call_1", ...call },
      { type: "function_call_output", call_id: "call_1", output: "18 C, sunny" },
    ];
    return respond({ tools: responsesTools, input });
  },

  structured: async () => {
    const request = { input: "#json", text: { format }, reasoning: { effort: "none" } };
    const response = await client.responses.parse({ ...responsesCommon, ...request });
    return { ...responsesTold(response), parsed: response.output_parsed };
  },

  turns: async () => {
    const input = [user("Good morning")];
    const first = await create({ input });
    return respond({ input: [...input, ...first.output, user("And now?")] });
  },

  concurrent: async () => ({ answers: await Promise.all(questions.map((input) => respond({ input }))) }),
};

await run({ "openai-chat": chatSteps, "openai-responses": responsesSteps });
