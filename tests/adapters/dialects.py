"""The four live adapters, and how their provider says the same things in its own way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson

from cortex_replay import (
    ClaudeAdapter,
    LlmRequest,
    LlmResponse,
    OllamaAdapter,
    OpenAICompatAdapter,
    StreamChunk,
    TokenUsage,
)
from cortex_replay.adapters.live import LiveAdapter
from cortex_replay.wire import WIRES, Wire

CANARY = "sk-canary-4f1d9c7b2e"
DIGEST = "a" * 64
MODELS = {"ollama-chat": f"llama3.1:8b@sha256:{DIGEST}"}


@dataclass(frozen=True)
class Dialect:
    """One adapter with its wire."""

    protocol: str

    def __str__(self) -> str:
        return self.protocol

    @property
    def wire(self) -> Wire:
        return WIRES[self.protocol]

    @property
    def has_key(self) -> bool:
        return self.protocol != "ollama-chat"

    @property
    def media_type(self) -> str:
        return self.wire.stream_media_type

    def adapter(self, url: str, **options: Any) -> LiveAdapter:
        if self.protocol == "anthropic-messages":
            return ClaudeAdapter(CANARY, base_url=url, **options)
        if self.protocol == "ollama-chat":
            return OllamaAdapter(url, allow_unpinned=True, **options)
        api = "chat" if self.protocol == "openai-chat" else "responses"
        return OpenAICompatAdapter(url + "/v1", CANARY, api=api, **options)  # type: ignore[arg-type]

    def answer(self, text: str = "Hello.", **fields: Any) -> dict[str, Any]:
        """A whole answer as this provider writes it."""
        defaults: dict[str, Any] = {"usage": TokenUsage(3, 4), "finish_reason": "stop"}
        response = LlmResponse(text, None, "the-real-model", raw_hash="", **(defaults | fields))
        return self.wire.encode_answer(response, "1")

    def events(self, *deltas: str, **fields: Any) -> list[bytes]:
        """A stream as this provider writes it: what comes before, each delta, what comes after."""
        defaults: dict[str, Any] = {"usage": TokenUsage(3, 4), "finish_reason": "stop"}
        response = LlmResponse("".join(deltas), None, "the-real-model", raw_hash="", **(defaults | fields))
        encoder = self.wire.stream_encoder("the-real-model", "1")
        last = StreamChunk("", response.finish_reason, response=response)
        return [encoder.start(), *(encoder.chunk(StreamChunk(d)) for d in deltas), encoder.chunk(last)]

    def error(self, status: int, message: str) -> bytes:
        return orjson.dumps(self.wire.encode_error(status, message))

    def error_event(self, message: str) -> bytes:
        body = json.dumps(self.wire.encode_error(500, message)).encode()
        return body + b"\n" if self.protocol == "ollama-chat" else b"data: " + body + b"\n\n"


DIALECTS = [Dialect(p) for p in ("anthropic-messages", "openai-chat", "openai-responses", "ollama-chat")]


def ask(content: str = "Hi.", **fields: Any) -> LlmRequest:
    settings: dict[str, Any] = {
        "system": "Be brief.",
        "temperature": 0.5,
        "max_tokens": 50,
        "timeout_ms": 5000,
    }
    return LlmRequest.from_dict({"model": "m-1", "messages": content, **(settings | fields)})
