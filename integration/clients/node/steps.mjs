// Runs the steps of a client and tells what came of each, as a line of JSON.

// APIS maps an API to its steps by name; arguments, each an API or API.STEP, choose some of them.
// CLIENT_ROUNDS says how often, one round after the other.
export async function run(apis) {
  const chosen = process.argv.slice(2);
  for (let round = 0; round < Number(process.env.CLIENT_ROUNDS ?? 1); round++) {
    for (const [api, steps] of Object.entries(apis)) {
      for (const [name, step] of Object.entries(steps)) {
        const full = `${api}.${name}`;
        if (chosen.length && !chosen.includes(api) && !chosen.includes(full)) continue;
        console.log(JSON.stringify({ step: full, ...(await step()) }));
      }
    }
  }
}

// Where a service is: below the gateway where the client is to come by it, else where it always is.
export const baseUrl = (name, own) =>
  process.env.CLIENT_ROAD === "gateway" ? `${process.env.CORTEX_REPLAY_GATEWAY}/${name}` : own;

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
