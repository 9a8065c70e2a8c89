"""Gemini's ``generateContent`` and ``streamGenerateContent``, at Google's own API and at Vertex."""

from __future__ import annotations

from typing import Final

from cortex_replay.wire.base import Wire
from cortex_replay.wire.gemini.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.gemini.lift import lift_request
from cortex_replay.wire.gemini.lower import encode_request
from cortex_replay.wire.gemini.stream import GeminiStreamDecoder, GeminiStreamEncoder

__all__ = ["GEMINI_GENERATE"]

GEMINI_GENERATE: Final = Wire(
    protocol="gemini-generate",
    lift=lift_request,
    encode_request=encode_request,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=GeminiStreamDecoder,
    stream_encoder=GeminiStreamEncoder,
    encode_error=encode_error,
)
"""``POST /v1beta/models/{model}:generateContent``."""
