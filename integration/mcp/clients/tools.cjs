// The same as tools.py, with the TypeScript SDK. MCP_MODULES names the folder that has node_modules.
const { createRequire } = require("node:module");
const sdk = createRequire(`${process.env.MCP_MODULES}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");

async function main() {
  const [calls, command, ...args] = process.argv.slice(2);
  const client = new Client({ name: "tools", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  const { tools } = await client.listTools();
  console.log(JSON.stringify(tools.map((tool) => tool.name).sort()));
  for (const [name, given] of JSON.parse(calls)) {
    const result = await client.callTool({ name, arguments: given });
    console.log(JSON.stringify([result.content, result.structuredContent]));
  }
  await client.close();
}

main();
