"""Anthropic's Messages API."""

from __future__ import annotations

from typing import Final

from cortex_replay.wire.anthropic.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.anthropic.lift import lift_request
from cortex_replay.wire.anthropic.lower import encode_request
from cortex_replay.wire.anthropic.stream import AnthropicStreamDecoder, AnthropicStreamEncoder
from cortex_replay.wire.base import Wire

__all__ = ["ANTHROPIC_MESSAGES"]

ANTHROPIC_MESSAGES: Final = Wire(
    protocol="anthropic-messages",
    lift=lift_request,
    encode_request=encode_request,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=AnthropicStreamDecoder,
    stream_encoder=AnthropicStreamEncoder,
    encode_error=encode_error,
)
"""``POST /v1/messages``."""
