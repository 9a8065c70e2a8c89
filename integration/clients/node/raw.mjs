// Chat completions by what Node and axios have for HTTP: raw.mjs LIBRARY.

import axios from "axios";

import { answerSchema, baseUrl, model, run, user, weather } from "./steps.mjs";

const url = `${baseUrl("openai", "https://api.openai.com")}/v1/chat/completions`;
const headers = { "content-type": "application/json", authorization: `Bearer ${process.env.OPENAI_API_KEY}` };

const libraries = {
  fetch: async (body) => {
    const answer = await fetch(url, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.text();
  },
  axios: async (body) => {
    const options = { headers, responseType: "text", transformResponse: (data) => data, validateStatus: () => true };
    const { status, data } = await axios.post(url, body, options);
    if (status !== 200) throw new Error(data);
    return data;
  },
};

const [library] = process.argv.splice(2, 1);
const ask = (text, more) =>
  libraries[library](JSON.stringify({ model, max_tokens: 16, temperature: 0, messages: [user(text)], ...more }));
const message = async (text, more) => JSON.parse(await ask(text, more)).choices[0].message;
const definition = { name: weather.name, description: weather.description, parameters: weather.schema };

await run({
  [library]: {
    plain: async () => ({ text: (await message("Hello")).content }),
    stream: async () => ({ pieces: (await ask("Stream #unicode", { stream: true })).split("\n\n") }),
    tool: async () => {
      const { tool_calls } = await message("#tool in Paris?", { tools: [{ type: "function", function: definition }] });
      return { calls: tool_calls.map((call) => [call.function.name, call.function.arguments]) };
    },
    structured: async () => {
      const json_schema = { name: "answer", schema: answerSchema, strict: true };
      const { content } = await message("#json", { response_format: { type: "json_schema", json_schema } });
      return { parsed: JSON.parse(content) };
    },
  },
});
