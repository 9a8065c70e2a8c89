"""Ollama's own API."""

from __future__ import annotations

from typing import Any, ClassVar

from cortex_replay.types import LlmRequest, LlmResponse
from cortex_replay.wire.base import Wire
from cortex_replay.wire.body import Body
from cortex_replay.wire.ollama.answer import (
    OllamaStreamDecoder,
    OllamaStreamEncoder,
    decode_answer,
    encode_answer,
    encode_error,
)
from cortex_replay.wire.ollama.request import encode_chat, encode_generate, lift_chat, lift_generate

__all__ = ["OllamaChat", "OllamaGenerate"]


class OllamaChat(Wire):
    """``POST /api/chat``."""

    protocol: ClassVar[str] = "ollama-chat"
    stream_media_type: ClassVar[str] = "application/x-ndjson"
    _is_chat: ClassVar[bool] = True

    def lift(self, body: object) -> LlmRequest:
        return lift_chat(body)

    def _encode(self, request: LlmRequest) -> Body:
        return encode_chat(request)

    def _set_stream(self, body: Body, stream: bool) -> None:
        body["stream"] = stream

    def wants_stream(self, body: Body) -> bool:
        return body.get("stream") is not False

    def _decode(self, answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
        return decode_answer(answer, self._is_chat, asked_model, raw_hash)

    def encode_answer(self, response: LlmResponse, answer_id: str) -> Body:  # noqa: ARG002 - it has no ids
        return encode_answer(response, self._is_chat)

    def stream_decoder(self, asked_model: str) -> OllamaStreamDecoder:
        return OllamaStreamDecoder(asked_model, self._is_chat)

    def stream_encoder(self, model: str, answer_id: str) -> OllamaStreamEncoder:  # noqa: ARG002 - see above
        return OllamaStreamEncoder(model, self._is_chat)

    def encode_error(self, status: int, message: str, error_type: str | None = None) -> Body:  # noqa: ARG002
        return encode_error(message)


class OllamaGenerate(OllamaChat):
    """``POST /api/generate``."""

    protocol: ClassVar[str] = "ollama-generate"
    _is_chat: ClassVar[bool] = False

    def lift(self, body: object) -> LlmRequest:
        return lift_generate(body)

    def _encode(self, request: LlmRequest) -> Body:
        return encode_generate(request)
