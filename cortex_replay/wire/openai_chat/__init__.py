"""The chat completions API, OpenAI's and everybody's."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from cortex_replay.types import LlmRequest, LlmResponse
from cortex_replay.wire.base import Wire
from cortex_replay.wire.body import Body
from cortex_replay.wire.openai_chat.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.openai_chat.request import encode_request, lift_request
from cortex_replay.wire.openai_chat.stream import ChatStreamDecoder, ChatStreamEncoder

__all__ = ["ChatCompletions", "MaxTokensField"]

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


class ChatCompletions(Wire):
    """``POST /v1/chat/completions``.

    Args:
        max_tokens_field: The name under which the limit is sent. OpenAI's newer models take only
            ``max_completion_tokens``, and many other servers know only ``max_tokens``.
    """

    protocol: ClassVar[str] = "openai-chat"
    stream_media_type: ClassVar[str] = "text/event-stream"

    def __init__(self, max_tokens_field: MaxTokensField = "max_tokens") -> None:
        self._max_tokens_field = max_tokens_field

    def lift(self, body: object) -> LlmRequest:
        return lift_request(body)

    def _encode(self, request: LlmRequest) -> Body:
        return encode_request(request, self._max_tokens_field)

    def _set_stream(self, body: Body, stream: bool) -> None:
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}

    def _decode(self, answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
        return decode_answer(answer, asked_model, raw_hash)

    def encode_answer(self, response: LlmResponse, answer_id: str) -> Body:
        return encode_answer(response, answer_id)

    def stream_decoder(self, asked_model: str) -> ChatStreamDecoder:
        return ChatStreamDecoder(asked_model)

    def stream_encoder(self, model: str, answer_id: str) -> ChatStreamEncoder:
        return ChatStreamEncoder(model, answer_id)

    def encode_error(self, status: int, message: str, error_type: str | None = None) -> Body:
        return encode_error(status, message, error_type)
