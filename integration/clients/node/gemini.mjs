// The SDK @google/genai.

import { GoogleGenAI, Type } from "@google/genai";

import { model, run, weather } from "./steps.mjs";

// It wants its address from the caller, or from a variable that only some versions read.
const client = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY,
  httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL },
});
const parameters = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] };
const tools = [{ functionDeclarations: [{ name: weather.name, description: weather.description, parameters }] }];

const calls = (answer) => (answer.functionCalls ?? []).map(({ name, args }) => [name, args]);

async function ask(contents, config) {
  const answer = await client.models.generateContent({ model, contents, config });
  return {
    text: answer.text ?? null,
    calls: calls(answer),
    finish: answer.candidates[0].finishReason,
    tokens: answer.usageMetadata.candidatesTokenCount,
  };
}

async function streamed(contents, config) {
  const pieces = [];
  const called = [];
  for await (const chunk of await client.models.generateContentStream({ model, contents, config })) {
    if (chunk.text) pieces.push(chunk.text);
    called.push(...calls(chunk));
  }
  return { text: pieces.join(""), chunks: pieces.length, calls: called };
}

await run({
  gemini: {
    plain: () => ask("Hello", { systemInstruction: "Be brief." }),
    stream: () => streamed("Stream, please"),
    tool: () => ask("Weather, node?", { tools }),
    tool_stream: () => streamed("Weather, node, in pieces?", { tools }),
    result: () =>
      ask(
        [
          { role: "user", parts: [{ text: "Weather?" }] },
          { role: "model", parts: [{ functionCall: { name: weather.name, args: { city: "Paris" } } }] },
          { role: "user", parts: [{ functionResponse: { name: weather.name, response: { output: "18 C" } } }] },
        ],
        { tools },
      ),
    structured: async () => {
      const responseSchema = { type: Type.OBJECT, properties: { answer: { type: Type.INTEGER } } };
      const answer = await ask("As JSON, node", { responseMimeType: "application/json", responseSchema });
      return { ...answer, parsed: JSON.parse(answer.text) };
    },
  },
});
