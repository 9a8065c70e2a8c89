// The SDKs of services besides the large three: services.mjs SDK.

import { GoogleGenAI } from "@google/genai";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { Mistral } from "@mistralai/mistralai";
import { CohereClientV2 } from "cohere-ai";
import Groq from "groq-sdk";

import { answerSchema, baseUrl, model, run, user, weather } from "./steps.mjs";

const definition = { name: weather.name, description: weather.description, parameters: weather.schema };
const tools = [{ type: "function", function: definition }];
const all = async (stream, piece) => {
  const pieces = [];
  for await (const chunk of stream) pieces.push(piece(chunk));
  return { pieces };
};

const sdks = {
  groq: () => {
    const client = new Groq({ baseURL: baseUrl("groq", "https://api.groq.com") });
    const create = (text, more) =>
      client.chat.completions.create({ model, max_tokens: 16, temperature: 0, messages: [user(text)], ...more });
    const format = { type: "json_schema", json_schema: { name: "answer", schema: answerSchema, strict: true } };
    return {
      plain: async () => ({ text: (await create("Hello")).choices[0].message.content }),
      stream: async () => all(await create("Stream this", { stream: true }), (chunk) => chunk.choices[0].delta),
      tool: async () => {
        const [choice] = (await create("#tool in Paris?", { tools })).choices;
        return { calls: choice.message.tool_calls.map((call) => [call.function.name, call.function.arguments]) };
      },
      structured: async () => {
        const [choice] = (await create("#json", { response_format: format })).choices;
        return { parsed: JSON.parse(choice.message.content) };
      },
    };
  },

  mistral: () => {
    const client = new Mistral({ apiKey: "none", serverURL: baseUrl("mistral", "https://api.mistral.ai") });
    const request = (text, more) => ({ model, maxTokens: 16, temperature: 0, messages: [user(text)], ...more });
    const format = { type: "json_schema", jsonSchema: { name: "answer", schemaDefinition: answerSchema, strict: true } };
    return {
      plain: async () => ({ text: (await client.chat.complete(request("Hello"))).choices[0].message.content }),
      stream: async () =>
        all(await client.chat.stream(request("Stream this")), (event) => event.data.choices[0]?.delta.content ?? null),
      tool: async () => {
        const [choice] = (await client.chat.complete(request("#tool in Paris?", { tools }))).choices;
        return { calls: choice.message.toolCalls.map((call) => [call.function.name, call.function.arguments]) };
      },
      structured: async () => {
        const [choice] = (await client.chat.complete(request("#json", { responseFormat: format }))).choices;
        return { parsed: JSON.parse(choice.message.content) };
      },
    };
  },

  cohere: () => {
    const client = new CohereClientV2({ token: "none", environment: baseUrl("cohere", "https://api.cohere.com") });
    const request = (text, more) => ({ model, messages: [user(text)], ...more });
    return {
      plain: async () => ({ text: (await client.chat(request("Hello"))).message.content[0].text }),
      stream: async () => all(await client.chatStream(request("Stream this")), (event) => event),
      tool: async () => {
        const { message } = await client.chat(request("#tool in Paris?", { tools }));
        return { calls: message.toolCalls.map((call) => [call.function.name, call.function.arguments]) };
      },
      structured: async () => {
        const responseFormat = { type: "json_object", jsonSchema: answerSchema };
        const { message } = await client.chat(request("#json", { responseFormat }));
        return { parsed: JSON.parse(message.content[0].text) };
      },
    };
  },

  "google-genai": () => {
    const baseURL = baseUrl("gemini", undefined);
    const client = new GoogleGenAI({ apiKey: "none", httpOptions: baseURL ? { baseUrl: baseURL } : undefined });
    const ask = (contents, config) => client.models.generateContent({ model, contents, config });
    return {
      plain: async () => ({ text: (await ask("Hello")).text }),
      stream: async () =>
        all(await client.models.generateContentStream({ model, contents: "Stream this" }), (chunk) => chunk.text),
      tool: async () => {
        const parametersJsonSchema = weather.schema;
        const functionDeclarations = [{ name: weather.name, description: weather.description, parametersJsonSchema }];
        const { functionCalls } = await ask("#tool in Paris?", { tools: [{ functionDeclarations }] });
        return { calls: functionCalls.map((call) => [call.name, call.args]) };
      },
      structured: async () => {
        const config = { responseMimeType: "application/json", responseJsonSchema: answerSchema };
        return { parsed: JSON.parse((await ask("#json", config)).text) };
      },
    };
  },

  langchain: () => {
    const chat = new ChatOpenAI({ model, maxTokens: 16, temperature: 0, maxRetries: 0 });
    const get_weather = langchainTool(({ city }) => `18 C, sunny in ${city}`, {
      name: weather.name,
      description: weather.description,
      schema: weather.schema,
    });
    return {
      plain: async () => ({ text: (await chat.invoke("Hello")).content }),
      stream: async () => all(await chat.stream("Stream #unicode"), (chunk) => chunk.content),
      tool: async () => {
        const { tool_calls } = await chat.bindTools([get_weather]).invoke("#tool in Paris?");
        return { calls: tool_calls.map((call) => [call.name, call.args]) };
      },
      structured: async () => {
        const asking = chat.withStructuredOutput(answerSchema, { name: "answer", method: "jsonSchema" });
        return { parsed: await asking.invoke("#json") };
      },
    };
  },
};

const [name] = process.argv.splice(2, 1);
await run({ [name]: sdks[name]() });
