// Runs the steps of a client and tells what came of each, as a line of JSON.

// APIS maps an API to its steps by name; arguments, each an API or API.STEP, choose some of them.
export async function run(apis) {
  const chosen = process.argv.slice(2);
  for (const [api, steps] of Object.entries(apis)) {
    for (const [name, step] of Object.entries(steps)) {
      const full = `${api}.${name}`;
      if (chosen.length && !chosen.includes(api) && !chosen.includes(full)) continue;
      console.log(JSON.stringify({ step: full, ...(await step()) }));
    }
  }
}

export const model = process.env.CLIENT_MODEL;
if (!model) throw new Error("CLIENT_MODEL is not set");

export const weather = {
  name: "get_weather",
  description: "The weather in a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

export const answerSchema = {
  type: "object",
  properties: { answer: { type: "integer" }, ok: { type: "boolean" } },
  required: ["answer", "ok"],
  additionalProperties: false,
};

export const user = (content) => ({ role: "user", content });
