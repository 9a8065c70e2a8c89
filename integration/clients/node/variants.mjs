// Azure's, Mistral's and Cohere's SDKs: each asks, streams and calls a tool.
import { Mistral } from "@mistralai/mistralai";
import { CohereClientV2 } from "cohere-ai";
import { AzureOpenAI, OpenAI } from "openai";
import { model, run, user, weather } from "./steps.mjs";

const { name, description, schema: parameters } = weather;
const tools = [{ type: "function", function: { name, description, parameters } }];
const messages = [user("Hello from Node")];

const azure = new AzureOpenAI();
const { chat } = new Mistral({
  apiKey: process.env.MISTRAL_API_KEY,
  serverURL: `${process.env.CORTEX_REPLAY_GATEWAY}/mistral`,
});
const cohere = new CohereClientV2({ environment: process.env.CO_API_URL });

async function pieces(stream, pick) {
  const found = [];
  for await (const one of await stream) found.push(pick(one));
  return { pieces: found.filter((one) => one !== undefined) };
}

await run({
  azure: {
    plain: async () => ({
      text: (await azure.chat.completions.create({ model, messages })).choices[0].message.content,
    }),
    stream: () =>
      pieces(azure.chat.completions.create({ model, messages: [user("In pieces")], stream: true }), (one) => one.choices[0]?.delta.content),
    responses: async () => ({ text: (await azure.responses.create({ model, input: "Over Node" })).output_text }),
  },
  completions: {
    plain: async () => ({
      text: (await new OpenAI().completions.create({ model, prompt: "Once" })).choices[0].text,
    }),
  },
  mistral: {
    plain: async () => ({
      text: (await chat.complete({ model, messages, randomSeed: 7 })).choices[0].message.content,
    }),
    stream: () =>
      pieces(chat.stream({ model, messages, randomSeed: 8 }), (one) => one.data.choices[0]?.delta.content),
    tool: async () => {
      const answer = await chat.complete({ model, messages, tools, toolChoice: "any" });
      return { call: answer.choices[0].message.toolCalls[0].function };
    },
  },
  cohere: {
    plain: async () => ({ text: (await cohere.chat({ model, messages, k: 3 })).message.content[0].text }),
    stream: () =>
      pieces(cohere.chatStream({ model, messages, k: 4 }), (one) => one.delta?.message?.content?.text ?? one.type),
    tool: async () => ({ call: (await cohere.chat({ model, messages, tools, k: 5 })).message.toolCalls[0].function }),
  },
});
