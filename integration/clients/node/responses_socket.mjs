// OpenAI's Responses over a WebSocket: two responses of one connection, the second a continuation.
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const socket = new ResponsesWS(new OpenAI());
const seen = [];
socket.on("event", (event) => {
  seen.push(event);
  if (event.type === "error") {
    console.error(JSON.stringify(event));
    process.exit(1);
  }
  if (event.type !== "response.completed") return;
  const turns = seen.filter((one) => one.type === "response.completed").length;
  if (turns === 1) {
    socket.send({ type: "response.create", model: "m", input: "two", previous_response_id: event.response.id });
    return;
  }
  console.log(JSON.stringify(seen));
  socket.close();
});
socket.on("error", (error) => {
  console.error(String(error.message));
  process.exit(1);
});
socket.send({ type: "response.create", model: "m", input: "one" });
