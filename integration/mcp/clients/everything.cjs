// A client of the TypeScript SDK that uses all that server-everything has, and prints what it got, a line each.
//
//     everything.cjs stdio COMMAND ...      everything.cjs http URL      everything.cjs sse URL
//
// The lines are those of everything.py. MCP_MODULES names the folder that has node_modules. With TASKS=1 it runs a
// tool as a task, and nothing else.
const { createRequire } = require("node:module");
const sdk = createRequire(`${process.env.MCP_MODULES}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");

const TOOLS = {
  "echo": { message: "hello" },
  "get-annotated-message": { messageType: "error", includeImage: true },
  "get-env": {},
  "get-resource-links": { count: 4 },
  "get-resource-reference": { resourceType: "Blob", resourceId: 2 },
  "get-roots-list": {},
  "get-structured-content": { location: "Chicago" },
  "get-sum": { a: 2, b: 40 },
  "get-tiny-image": {},
  "gzip-file-as-resource": { name: "a.gz", data: "data:text/plain;base64,aGVsbG8=", outputType: "resource" },
  "toggle-simulated-logging": {},
  "toggle-subscriber-updates": {},
  "trigger-elicitation-request": {},
  "trigger-long-running-operation": { duration: 0.3, steps: 3 },
  "trigger-sampling-request": { prompt: "a word for tea", maxTokens: 5 },
  "trigger-url-elicitation": { url: "https://example.com/", message: "look", elicitationId: "e-1" },
};

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

function transportOf(kind, target) {
  if (kind === "stdio") return new StdioClientTransport({ command: target[0], args: target.slice(1) });
  const url = new URL(target[0]);
  if (kind === "sse") return new (sdk("@modelcontextprotocol/sdk/client/sse.js").SSEClientTransport)(url);
  return new (sdk("@modelcontextprotocol/sdk/client/streamableHttp.js").StreamableHTTPClientTransport)(url);
}

async function connect(kind, target) {
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
  const client = new Client({ name: "everything", version: "1" }, { capabilities });
  client.setRequestHandler(types.CreateMessageRequestSchema, async () => ({
    role: "assistant", content: { type: "text", text: "oolong" }, model: "a-model",
  }));
  client.setRequestHandler(types.ElicitRequestSchema, async (request) =>
    request.params.mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ada", check: true } });
  client.setRequestHandler(types.ListRootsRequestSchema, async () => ({
    roots: [{ uri: "file:///srv/tea", name: "tea" }],
  }));
  const transport = transportOf(kind, target);
  await client.connect(transport);
  const take = transport.onmessage;
  transport.onmessage = (message, extra) => { say({ got: message }); take(message, extra); };
  return client;
}

async function everything(client, ask) {
  await ask("ping", () => client.ping());
  const { tools } = await ask("tools/list", () => client.listTools());
  for (const level of ["debug", "info", "warning", "emergency", "info"]) {
    await ask(`level ${level}`, () => client.setLoggingLevel(level));
  }
  for (const { name } of tools.filter((tool) => tool.name in TOOLS)) {
    const call = { name, arguments: TOOLS[name] };
    await ask(name, () => client.callTool(call, undefined, { onprogress: () => undefined }));
    if (name.startsWith("toggle-")) await ask(`${name} off`, () => client.callTool(call));
  }
  await ask("no such tool", () => client.callTool({ name: "no-such-tool", arguments: {} }));
  await ask("wrong arguments", () => client.callTool({ name: "get-sum", arguments: { a: "x" } }));
  const { resources } = await ask("resources/list", () => client.listResources());
  for (const { uri } of resources) await ask(uri, () => client.readResource({ uri }));
  await ask("templates", () => client.listResourceTemplates());
  for (const uri of ["demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2", "demo://nothing"]) {
    await ask(uri, () => client.readResource({ uri }));
  }
  const uri = "demo://resource/dynamic/text/1";
  await ask("subscribe", () => client.subscribeResource({ uri }));
  const updates = { name: "toggle-subscriber-updates", arguments: {} };
  await ask("updates", () => client.callTool(updates));
  await ask("updates off", () => client.callTool(updates));
  await ask("unsubscribe", () => client.unsubscribeResource({ uri }));
  await ask("complete a resource", () => client.complete({
    ref: { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" },
    argument: { name: "resourceId", value: "1" },
  }));
  await ask("prompts/list", () => client.listPrompts());
  await ask("simple-prompt", () => client.getPrompt({ name: "simple-prompt" }));
  await ask("args-prompt", () => client.getPrompt({ name: "args-prompt", arguments: { city: "Oslo" } }));
  const sales = { department: "Sales", name: "David" };
  await ask("completable-prompt", () => client.getPrompt({ name: "completable-prompt", arguments: sales }));
  const text = { resourceType: "Text", resourceId: "3" };
  await ask("resource-prompt", () => client.getPrompt({ name: "resource-prompt", arguments: text }));
  await ask("complete a prompt", () => client.complete({
    ref: { type: "ref/prompt", name: "completable-prompt" }, argument: { name: "department", value: "S" },
  }));
  await ask("roots changed", () => client.sendRootsListChanged());
  for (let n = 0; n < 3; n += 1) {
    await ask("get-roots-list", () => client.callTool({ name: "get-roots-list", arguments: {} }));
  }
  const long = { name: "trigger-long-running-operation", arguments: { duration: 0.2, steps: 2 } };
  await Promise.all([1, 2, 3].map(() => client.callTool(long, undefined, { onprogress: () => undefined })));
  const longer = { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 1 } };
  await ask("a cancellation", () => client.callTool(longer, undefined, { signal: AbortSignal.timeout(300) }));
  await ask("after a cancellation", () => client.callTool({ name: "echo", arguments: { message: "still here" } }));
}

async function task(client, ask) {
  await ask("tools/list", () => client.listTools());
  for (const ambiguous of [false, true]) {
    await ask(`simulate-research-query ${ambiguous}`, async () => {
      const call = { name: "simulate-research-query", arguments: { topic: "tea", ambiguous } };
      const stream = client.experimental.tasks.callToolStream(call, undefined, { task: { ttl: 60000 } });
      for await (const message of stream) say({ task: message.type });
    });
  }
}

async function main([kind, ...target]) {
  let count = 0;
  const client = await connect(kind, target);
  const ask = async (what, call) => {
    count += 1;
    say({ asks: what });
    try {
      return await call();
    } catch (error) {
      say({ error: error.code ?? error.name });
      return null;
    }
  };
  await (process.env.TASKS ? task : everything)(client, ask);
  await client.close();
  say({ done: count });
}

main(process.argv.slice(2));
