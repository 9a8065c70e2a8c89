"""OpenAI's Responses API."""

from __future__ import annotations

from typing import Final

from cortex_replay.wire.base import Wire
from cortex_replay.wire.openai_chat.answer import encode_error
from cortex_replay.wire.openai_responses.answer import decode_answer, encode_answer
from cortex_replay.wire.openai_responses.request import encode_request, lift_request
from cortex_replay.wire.openai_responses.stream import ResponsesStreamDecoder, ResponsesStreamEncoder

__all__ = ["OPENAI_RESPONSES"]

OPENAI_RESPONSES: Final = Wire(
    protocol="openai-responses",
    lift=lift_request,
    encode_request=encode_request,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=ResponsesStreamDecoder,
    stream_encoder=ResponsesStreamEncoder,
    encode_error=encode_error,
)
"""``POST /v1/responses``."""
