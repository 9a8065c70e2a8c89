"""Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, ClassVar

from cortex_replay.types import LlmRequest, LlmResponse
from cortex_replay.wire.anthropic.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.anthropic.request import encode_request, lift_request
from cortex_replay.wire.anthropic.stream import AnthropicStreamDecoder, AnthropicStreamEncoder
from cortex_replay.wire.base import Wire
from cortex_replay.wire.body import Body

__all__ = ["AnthropicMessages"]


class AnthropicMessages(Wire):
    """``POST /v1/messages``."""

    protocol: ClassVar[str] = "anthropic-messages"
    stream_media_type: ClassVar[str] = "text/event-stream"

    def lift(self, body: object) -> LlmRequest:
        return lift_request(body)

    def _encode(self, request: LlmRequest) -> Body:
        return encode_request(request)

    def _decode(self, answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
        return decode_answer(answer, asked_model, raw_hash)

    def encode_answer(self, response: LlmResponse, answer_id: str) -> Body:
        return encode_answer(response, answer_id)

    def stream_decoder(self, asked_model: str) -> AnthropicStreamDecoder:
        return AnthropicStreamDecoder(asked_model)

    def stream_encoder(self, model: str, answer_id: str) -> AnthropicStreamEncoder:
        return AnthropicStreamEncoder(model, answer_id)

    def encode_error(self, status: int, message: str, error_type: str | None = None) -> Body:
        return encode_error(status, message, error_type)
