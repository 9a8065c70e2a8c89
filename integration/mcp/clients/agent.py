"""An agent: the SDK of a model, and that of MCP. It prints what the model and the tools said in the end.

agent.py SERVER ...
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
import openai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

_QUESTION: Any = {"role": "user", "content": "Use your tools."}
_PREFIX = "mcp__every__"


async def _complete(model: openai.AsyncOpenAI, messages: list[Any]) -> Any:
    return (await model.chat.completions.create(model="m", messages=messages)).choices[0].message


async def _run(session: ClientSession, model: openai.AsyncOpenAI) -> dict[str, Any]:
    await session.initialize()
    said = await _complete(model, [_QUESTION])
    results: list[Any] = []
    for call in said.tool_calls:
        name, arguments = call.function.name.removeprefix(_PREFIX), json.loads(call.function.arguments)
        [block, *_] = (await session.call_tool(name, arguments)).content
        assert isinstance(block, types.TextContent)
        results.append({"role": "tool", "tool_call_id": call.id, "content": block.text})
    asked = {"role": "assistant", "tool_calls": [call.model_dump() for call in said.tool_calls]}
    final = await _complete(model, [_QUESTION, asked, *results])
    return {"said": final.content, "results": [result["content"] for result in results]}


async def main(command: str, arguments: list[str]) -> None:
    async with openai.AsyncOpenAI(max_retries=0) as model:

        async def sample(
            context: Any,
            params: types.CreateMessageRequestParams,
        ) -> types.CreateMessageResult:
            content = params.messages[0].content
            block = content[0] if isinstance(content, list) else content
            assert isinstance(block, types.TextContent)
            said = await _complete(model, [{"role": "user", "content": block.text}])
            text = types.TextContent(type="text", text=said.content)
            return types.CreateMessageResult(role="assistant", model="m", content=text)

        server = StdioServerParameters(command=command, args=arguments)
        async with (
            stdio_client(server) as (read, write),
            ClientSession(read, write, sampling_callback=sample) as session,
        ):
            sys.stdout.write(json.dumps(await _run(session, model)) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
