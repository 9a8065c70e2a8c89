"""A body with anything at any place of it is a request, or one that is refused: never another error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.wire import WIRES

SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: Final = {"name": "f", "description": "d", "parameters": SCHEMA}
CHAT: Final[list[Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "s"}]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
    {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "i", "content": "r"},
]
BLOCKS: Final[list[Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "f", "input": {"city": "x"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "r"}]},
]
BODIES: Final[dict[str, dict[str, Any]]] = {
    "openai-chat": {
        "messages": CHAT,
        "tools": [{"type": "function", "function": TOOL}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 5,
    },
    "openai-responses": {
        "instructions": "s",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "function_call", "call_id": "i", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "i", "output": [{"type": "input_text", "text": "r"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]},
        ],
        "tools": [{"type": "function", **TOOL}],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
    },
    "openai-completions": {"prompt": ["q"], "stop": ["x"], "max_tokens": 5},
    "anthropic-messages": {
        "system": [{"type": "text", "text": "s"}],
        "messages": BLOCKS,
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 5},
        "metadata": {"user_id": "u"},
        "max_tokens": 5,
    },
    "ollama-chat": {
        "messages": [
            {"role": "user", "content": "q", "images": ["aGk="]},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"city": "x"}}}]},
            {"role": "tool", "tool_name": "f", "content": "r"},
        ],
        "tools": [{"type": "function", "function": TOOL}],
        "format": SCHEMA,
        "options": {"temperature": 0.5, "num_predict": 5, "stop": ["x"]},
    },
    "ollama-generate": {"prompt": "q", "system": "s", "images": ["aGk="], "options": {"seed": 1}},
    "gemini-generate": {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "q"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
            },
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"city": "x"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
        ],
        "tools": [{"functionDeclarations": [TOOL]}],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 5, "responseSchema": SCHEMA},
    },
    "cohere-chat": {"messages": CHAT, "tools": [{"type": "function", "function": TOOL}]},
    "bedrock-converse": {
        "system": [{"text": "s"}],
        "messages": [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "i", "name": "f", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "i", "content": [{"text": "r"}]}}]},
        ],
        "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}}]},
        "inferenceConfig": {"maxTokens": 5, "temperature": 0.5},
    },
    "bedrock-anthropic": {"messages": BLOCKS, "system": "s", "max_tokens": 5},
    "bedrock-nova": {
        "system": [{"text": "s"}],
        "messages": [{"role": "user", "content": [{"text": "q"}]}],
        "inferenceConfig": {"maxTokens": 5},
    },
}
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1.5, 2**64, "x", [], {}, ["x"], [{}], {"type": "x"}, {"type": []}),
)


def changed(value: Any) -> Iterator[Any]:
    """The same document with each odd value at each place of it."""
    yield from ODD
    if isinstance(value, list):
        for place, item in enumerate(value):
            for other in changed(item):
                yield [*value[:place], other, *value[place + 1 :]]
    elif isinstance(value, dict):
        for name, item in value.items():
            for other in changed(item):
                yield {**value, name: other}


def test_every_wire_has_a_body_here() -> None:
    assert BODIES.keys() == WIRES.keys()


@pytest.mark.parametrize("protocol", BODIES)
def test_anything_at_any_place_is_a_request_or_refused(protocol: str) -> None:
    wire, whole = WIRES[protocol], {"model": "m", **BODIES[protocol]}
    wire.lift(whole)
    for body in changed(whole):
        try:
            wire.wants_stream(body) if isinstance(body, dict) else None
            wire.lift(body).prompt_hash()
        except InvalidRequest:
            pass
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            pytest.fail(f"{type(error).__name__}: {error}: {body}")
