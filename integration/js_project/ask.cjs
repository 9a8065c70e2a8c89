// What the tests of both runners ask; the dice fall differently each time.
const { readFileSync, writeFileSync } = require("node:fs");
const { Anthropic } = require("@anthropic-ai/sdk");
const { OpenAI } = require("openai");

const model = process.env.CLIENT_MODEL;
const RANDOM = 4294967295; // llama.cpp takes another seed for each call

const openai = new OpenAI();
const anthropic = new Anthropic();

exports.roll = async (text) => {
  const messages = [{ role: "user", content: `#dice ${text}` }];
  const asked = { model, messages, temperature: 1, seed: RANDOM, max_completion_tokens: 16 };
  return (await openai.chat.completions.create(asked)).choices[0].message.content;
};

exports.greet = async (text) => {
  const stream = anthropic.messages.stream({ model, max_tokens: 16, messages: [{ role: "user", content: text }] });
  return (await stream.finalMessage()).content[0].text;
};

/** What a test saw when it was recorded: kept then, given back later. */
exports.recorded = (name, seen) => {
  const path = `seen-${name}.json`;
  if (process.env.IS_RECORDED === "yes") writeFileSync(path, JSON.stringify(seen));
  return JSON.parse(readFileSync(path, "utf-8"));
};
