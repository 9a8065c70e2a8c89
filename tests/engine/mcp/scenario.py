"""An agent with a model and an MCP server: a question, a tool that asks a model back, an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.modes import Mode
from cortex_replay.types import LlmMessage, LlmRequest, LlmResponse, LlmRole, ToolCall
from tests.engine.mcp.harness import Client, FakeServer, run_at

MODEL = "agent-model"
QUESTION = "What does a.txt say, in short?"
ARGUMENTS: dict[str, Any] = {"path": "a.txt"}
LOCAL = ToolCall(id="call_2", name="todo_write", arguments={"items": []})
READ = ToolCall(id="call_1", name="mcp__files__read_short", arguments=ARGUMENTS)


class Model(LlmAdapter):
    """Wants a file read, sums up for who asks it to, and says what it was told."""

    adapter_id = "model"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        last = request.messages[-1]
        if last.role is LlmRole.TOOL:
            return LlmResponse(f"It says: {last.content}", None, request.model, None, "")
        if last.content.startswith("Sum up"):
            return LlmResponse("a greeting", None, request.model, None, "")
        return LlmResponse("", None, request.model, None, "", "tool_calls", (READ, LOCAL))


def ask(*messages: LlmMessage, question: str) -> LlmRequest:
    return LlmRequest(MODEL, "", [LlmMessage("user", question), *messages], max_tokens=100)


def server() -> FakeServer:
    """Reads a file, and has a model sum it up."""
    asked: list[Any] = []

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message.get("method") == "initialize":
            return [{"id": message["id"], "result": {"serverInfo": {"name": "fs", "version": "1"}}}]
        if message.get("method") == "tools/call":
            asked.append(message["id"])
            content = {"type": "text", "text": "Sum up: hello world"}
            sampling = {"messages": [{"role": "user", "content": content}], "maxTokens": 9}
            return [
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": 7, "progress": 1, "total": 2},
                },
                {"id": "s1", "method": "sampling/createMessage", "params": sampling},
            ]
        if "result" in message:
            text = message["result"]["content"]["text"]
            return [{"id": asked.pop(), "result": {"content": [{"type": "text", "text": text}]}}]
        return []

    return FakeServer(reply)


async def play(run: RunCore, real: FakeServer, question: str = QUESTION) -> str:
    """What the agent says in the end."""
    model = ScopeAdapter(run.scope(), Model() if run.mode.asks else None)
    client = Client(run, real, "files")
    await client.ask("initialize", {"protocolVersion": "2025-11-25"}, id=1)
    await client.say("notifications/initialized")
    wanted = (await model.complete(ask(question=question))).tool_calls[0]
    parameters = {"name": "read_short", "arguments": wanted.arguments, "_meta": {"progressToken": 7}}
    await client.say("tools/call", parameters, id=2)
    sampling = await client.message("sampling/createMessage")
    to_sum = sampling["params"]["messages"][0]["content"]["text"]
    summed = await model.complete(LlmRequest(MODEL, "", to_sum, max_tokens=9))
    content = {"role": "assistant", "content": {"type": "text", "text": summed.text}, "model": MODEL}
    await client.answer(sampling["id"], content)
    read = await client.answer_to(2)
    text = read["result"]["content"][0]["text"]
    said = LlmMessage("assistant", "", tool_calls=[wanted])
    told = LlmMessage("tool", text, tool_call_id=wanted.id)
    final = await model.complete(ask(said, told, question=question))
    await client.session.close()
    return final.text


async def record(root: Path, question: str = QUESTION) -> RunCore:
    """A run that has recorded it, and committed."""
    run = run_at(root, Mode.RECORD)
    await play(run, server(), question)
    run.commit()
    return run
