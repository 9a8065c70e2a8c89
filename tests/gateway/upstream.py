"""A scripted model server that speaks every wire, and a few of their other calls.

Deterministic: it says what it was asked, calls a tool where there is one, and keeps to a schema.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from cortex_replay.providers import address_at
from cortex_replay.types import (
    LlmRequest,
    LlmResponse,
    LlmRole,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread

__all__ = ["REAL_KEY", "model_server"]

REAL_KEY: Final = "only-the-gateway-knows-this-7391"
_KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key")
OTHER: Final[dict[str, Any]] = {
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "type": "model"}]},
    "/api/tags": {"models": [{"model": "m", "name": "m"}]},
    "/v1/messages/count_tokens": {"input_tokens": 7},
    "/v1/embeddings": {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
        "model": "m",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    },
}


def said(request: LlmRequest) -> LlmResponse:
    """The answer to a request."""
    last = request.messages[-1] if request.messages else None
    text = f"You said: {last.content if last else ''}"
    calls: tuple[ToolCall, ...] = ()
    if request.json_schema is not None:
        text = json.dumps({"answer": 42})
    elif request.tools and last is not None and last.role is not LlmRole.TOOL:
        tool = request.tools[0]
        name = tool.get("name") if isinstance(tool, dict) else "f"
        calls, text = (ToolCall(id="call_real_1", name=str(name), arguments={"city": "Paris"}),), ""
    reason = "tool_calls" if calls else "stop"
    return LlmResponse(text, None, request.model, TokenUsage(11, 5), "", reason, calls)


def chunks(response: LlmResponse) -> Iterator[StreamChunk]:
    for word in response.text.split(" "):
        if response.text:
            yield StreamChunk(word + " " * (word != response.text.split(" ")[-1]))
    for i, call in enumerate(response.tool_calls):
        yield StreamChunk("", tool_calls=(ToolCallDelta.whole(i, call),))
    yield StreamChunk("", response.finish_reason, response=response)


async def answer(exchange: Exchange) -> None:
    received = exchange.received
    path = received.path.partition("?")[0]
    given = [received.headers[name] for name in _KEY_HEADERS if name in received.headers]
    if given and not any(REAL_KEY in value for value in given):
        await exchange.whole(b'{"error": {"message": "bad key", "type": "authentication_error"}}', 401)
        return
    if "cachedContents" in path:
        await answer_about_kept(exchange, path)
        return
    address = address_at(path)
    if address is None or received.method != "POST":
        found = OTHER.get(re.sub(r"^/openai/deployments/[^/]+", "/v1", path))
        body = json.dumps(found or {"error": {"message": f"no {path}"}}).encode()
        await exchange.whole(body, 200 if found else 404, request_id="req_1")
        return
    wire = WIRES[address.protocol]
    document = {**received.json, **dict(address.parameters)}
    kept = exchange.provider.kept.get(document.get("cachedContent", ""))
    if "cachedContent" in document and kept is None:
        await exchange.whole(b'{"error": {"code": 403, "message": "CachedContent not found"}}', 403)
        return
    response = said(wire.lift(document))
    if kept is not None:
        response = replace(
            response,
            text=f"{response.text} ({_text_of(kept)})",
            usage=TokenUsage(2011, 5, cached_tokens=2000),
        )
    if not wire.wants_stream(document):
        body = json.dumps(wire.encode_answer(response, "real")).encode()
        await exchange.whole(body, request_id="req_1", anthropic_organization_id="org-secret")
        return
    encoder = wire.stream_encoder(response.model, "real")
    await exchange.start_stream(wire.stream_media_type)
    await exchange.piece(encoder.start())
    for chunk in chunks(response):
        await exchange.piece(encoder.chunk(chunk))
        await asyncio.sleep(0.002)
    await exchange.end_stream()


async def answer_about_kept(exchange: Exchange, path: str) -> None:
    """``cachedContents`` of Gemini: each gets a new name, and lives for an hour."""
    received, provider = exchange.received, exchange.provider
    name = path.split("/", 2)[2]  # behind the version
    status, found = 200, provider.kept.get(name)
    match received.method:
        case "POST":
            provider.sent += 1
            name = f"{name}/{provider.sent}-{secrets.token_hex(4)}"
            provider.kept[name] = found = received.json | {"name": name, "expireTime": "2026-11-16T08:00:00Z"}
        case "PATCH" if found is not None:
            found["expireTime"] = "2026-11-16T10:00:00Z"
        case "DELETE" if found is not None:
            del provider.kept[name]
            found = {"name": ""}
        case "GET" if found is None and name.endswith("cachedContents"):
            found = {"cachedContents": list(provider.kept.values())}
    if found is None:
        status, found = 403, {"error": {"code": 403, "message": "CachedContent not found"}}
    shown = {name: value for name, value in found.items() if name not in ("contents", "systemInstruction")}
    await exchange.whole(json.dumps(shown).encode(), status)


def _text_of(kept: Any) -> str:
    contents = [kept.get("systemInstruction", {}), *kept.get("contents", [])]
    return " ".join(part["text"] for content in contents for part in content.get("parts", []))


@contextmanager
def model_server() -> Iterator[FakeProvider]:
    """The server, for as long as the block lasts; a key that is not its own is refused."""
    with serving_in_thread(answer) as provider:
        yield provider
