// A client of the TypeScript SDK, version 2, that uses all of modern_server.py, and prints what it got:
//
//     modern.cjs URL
//
// MCP_MODULES names the folder that has node_modules.
const { createRequire } = require("node:module");
const sdk = createRequire(`${process.env.MCP_MODULES}/`);
const { Client, StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/client");

const say = (...what) => process.stdout.write(`${what.map((one) => JSON.stringify(one)).join(" ")}\n`);

async function main(url) {
  const client = new Client({ name: "modern", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  say(client.getNegotiatedProtocolVersion());
  say((await client.listTools()).tools.map((tool) => tool.name));
  for (const a of [0, 1, 2]) say(await call("add", { a, b: 2 }));
  say(await call("count", { to: 4 }, { onprogress: (progress) => say(progress) }));
  say(await client.readResource({ uri: "note://tea time ä" }));
  say(await client.getPrompt({ name: "greet", arguments: { name: "Ada" } }));
  await client.readResource({ uri: "nothing://here" }).catch((error) => say("error", error.code));
  const given = new AbortController();
  const giveUp = { signal: given.signal, onprogress: () => given.abort() };
  await call("wait", {}, giveUp).catch(() => say("given up"));
  say(await call("add", { a: 40, b: 2 }));
  await client.close();
}

main(process.argv[2]);
