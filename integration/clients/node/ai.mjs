// The package ai with @ai-sdk/anthropic and @ai-sdk/openai.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { answerSchema, model, run, user, weather } from "./steps.mjs";

// Unlike Anthropic's own SDK, this one wants the /v1 in the address.
const anthropic = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com"}/v1` });
const openai = createOpenAI();
// Not stored, or a second turn of responses would refer to the first by its id alone.
const providerOptions = { openai: { store: false } };
// What it does by itself for models that it knows; Ollama cannot think and keep to a schema at once.
const native = {
  anthropic: { structuredOutputMode: "outputFormat" },
  openai: { store: false, forceReasoning: true, reasoningEffort: "none" },
};

const tools = {
  [weather.name]: tool({
    description: weather.description,
    inputSchema: jsonSchema(weather.schema),
    execute: ({ city }) => `18 C, sunny in ${city}`,
  }),
};

function told({ text, finishReason, totalUsage, steps }) {
  const calls = steps.flatMap((step) => step.toolCalls).map(({ toolName, input }) => [toolName, input]);
  return { text, calls, finish: finishReason, tokens: totalUsage.outputTokens };
}

async function streamed(request) {
  let chunks = 0;
  let failure;
  const result = streamText({ ...request, onError: ({ error }) => (failure ??= error) });
  for await (const _ of result.textStream) chunks++;
  if (failure) throw failure;
  const [text, finishReason, totalUsage, steps] = await Promise.all([
    result.text,
    result.finishReason,
    result.totalUsage,
    result.steps,
  ]);
  return { ...told({ text, finishReason, totalUsage, steps }), chunks };
}

function stepsOf(languageModel) {
  const common = { model: languageModel, maxOutputTokens: 16, providerOptions };
  const ask = async (request) => told(await generateText({ ...common, ...request }));
  return {
    plain: () => ask({ system: "Be brief.", prompt: "Hello" }),

    stream: () => streamed({ ...common, prompt: "Stream this" }),

    tool: () => ask({ tools, stopWhen: stepCountIs(2), prompt: "#tool in Paris?" }),

    tool_stream: () => {
      return streamed({ ...common, tools, stopWhen: stepCountIs(2), prompt: "#tool in Paris, streamed?" });
    },

    tool_result: () => {
      const call = { toolCallId: "call_1", toolName: weather.name };
      const output = { type: "text", value: "18 C, sunny" };
      const messages = [
        user("Weather in Paris?"),
        { role: "assistant", content: [{ type: "tool-call", ...call, input: { city: "Paris" } }] },
        { role: "tool", content: [{ type: "tool-result", ...call, output }] },
      ];
      return ask({ tools, messages });
    },

    structured: async () => {
      const output = Output.object({ schema: jsonSchema(answerSchema) });
      const result = await generateText({ ...common, prompt: "#json", output, providerOptions: native });
      return { ...told(result), parsed: result.output };
    },

    turns: async () => {
      const messages = [user("Good morning")];
      const { response } = await generateText({ ...common, messages });
      return ask({ messages: [...messages, ...response.messages, user("And now?")] });
    },

    concurrent: async () => {
      const questions = ["One", "#unicode", "#json", "Four"];
      return { answers: await Promise.all(questions.map((prompt) => ask({ prompt }))) };
    },
  };
}

await run({
  anthropic: stepsOf(anthropic(model)),
  "openai-chat": stepsOf(openai.chat(model)),
  "openai-responses": stepsOf(openai.responses(model)),
});
