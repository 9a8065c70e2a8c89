// OpenAI's realtime API with the WebSocket of the platform, which brings the key as a subprotocol.
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket; // Node 20 has none of its own

const client = new OpenAI({ dangerouslyAllowBrowser: true });
const onURL = (url) => {
  url.protocol = "ws:"; // it would always be wss:
};
const session = new OpenAIRealtimeWebSocket({ model: "m", dangerouslyAllowBrowser: true, onURL }, client);
const seen = [];
session.on("event", (event) => {
  seen.push(event);
  if (event.type === "error") {
    console.error(JSON.stringify(event));
    process.exit(1);
  }
  if (event.type === "session.created") {
    const content = [{ type: "input_text", text: "hello" }];
    session.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    session.send({ type: "response.create" });
  }
  if (event.type === "response.done") {
    console.log(JSON.stringify(seen));
    session.close();
  }
});
session.on("error", (error) => {
  console.error(String(error.message));
  process.exit(1);
});
