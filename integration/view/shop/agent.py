"""The agents of a shop: one with the tools of an MCP server, some that only ask."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CLAUDE, GPT = "claude-haiku-5-5", "gpt-6-luna"
HERE = Path(__file__).parent
PROMPT = (HERE / "prompt.md").read_text(encoding="utf-8")
SEARCH: Any = {
    "type": "function",
    "function": {
        "name": "search_parcels",
        "description": "Search the carrier's parcels.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
        },
    },
}
TICKET: Any = {
    "name": "ticket",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {
            "priority": {"type": "integer"},
            "team": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["priority", "team", "tags"],
        "additionalProperties": False,
    },
}


async def serve(*questions: str) -> str:
    """Answer a customer, with the shop's orders at hand."""
    shim = ["-m", "cortex_replay", "mcp", "orders", "--", sys.executable, str(HERE / "orders.py")]
    orders = StdioServerParameters(command=sys.executable, args=shim, env=dict(os.environ))
    async with stdio_client(orders) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        offered = (await session.list_tools()).tools
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in offered
        ]
        messages: list[Any] = []
        for number, question in enumerate(questions, start=1):
            messages.append({"role": "user", "content": question})
            if number > 1:  # a mistake that costs money: nothing behind this is in the cache any more
                tools[0] = {**tools[0], "description": f"{tools[0]['description']} (question {number})"}
            said = await _answer(session, tools, messages)
    return said


async def _answer(session: ClientSession, tools: Any, messages: list[Any]) -> str:
    client = anthropic.AsyncAnthropic(max_retries=1)
    cached: Any = [{"type": "text", "text": PROMPT, "cache_control": {"type": "ephemeral"}}]
    while True:
        async with client.messages.stream(
            model=CLAUDE, max_tokens=1024, system=cached, tools=tools, messages=messages
        ) as stream:
            said = await stream.get_final_message()
        blocks = [block for block in said.content if block.type in ("text", "tool_use")]
        kept = [
            {"type": "text", "text": block.text}
            if block.type == "text"
            else {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
            for block in blocks
        ]
        messages.append({"role": "assistant", "content": kept})
        calls: list[Any] = [block for block in blocks if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in blocks if block.type == "text")
        results = []
        for call in calls:
            done = await session.call_tool(call.name, call.input)
            results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": done.content[0].text,  # type: ignore[union-attr]
                    "is_error": bool(done.is_error),
                }
            )
        messages.append({"role": "user", "content": results})


def greet(question: str) -> str:
    """Say something kind."""
    made = anthropic.Anthropic(max_retries=1).messages.create(
        model=CLAUDE, max_tokens=200, messages=[{"role": "user", "content": question}]
    )
    return "".join(block.text for block in made.content if block.type == "text")


def track(question: str) -> str:
    """Search the carrier's parcels, and say where one is."""
    client = openai.OpenAI(max_retries=1)
    messages: list[Any] = [{"role": "user", "content": question}]
    first = client.chat.completions.create(model=GPT, messages=messages, tools=[SEARCH])
    messages.append(first.choices[0].message.model_dump(exclude_none=True))
    for call in first.choices[0].message.tool_calls or ():
        found = json.dumps({"parcel": "1042", "place": "Berlin", "due": "Thursday"})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    pieces = client.chat.completions.create(
        model=GPT, messages=messages, tools=[SEARCH], stream=True, stream_options={"include_usage": True}
    )
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def triage(ticket: str) -> Any:
    """What a ticket is about, as JSON."""
    made = openai.OpenAI(max_retries=1).chat.completions.create(
        model=GPT,
        messages=[{"role": "system", "content": "Sort tickets."}, {"role": "user", "content": ticket}],
        response_format={"type": "json_schema", "json_schema": TICKET},
    )
    return json.loads(made.choices[0].message.content or "null")


def ask(question: str) -> str:
    """One question, one answer."""
    made = openai.OpenAI(max_retries=1).chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": question}]
    )
    return made.choices[0].message.content or ""


def embed(text: str) -> list[float]:
    """Where a text stands among others."""
    return openai.OpenAI().embeddings.create(model="text-embedding-6-small", input=text).data[0].embedding
