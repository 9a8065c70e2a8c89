"""Cohere's chat API, version 2."""

from __future__ import annotations

from typing import Final

from cortex_replay.wire.base import Wire
from cortex_replay.wire.cohere.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.cohere.request import encode_request, lift_request
from cortex_replay.wire.cohere.stream import CohereStreamDecoder, CohereStreamEncoder

__all__ = ["COHERE_CHAT"]

COHERE_CHAT: Final = Wire(
    protocol="cohere-chat",
    lift=lift_request,
    encode_request=encode_request,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=CohereStreamDecoder,
    stream_encoder=CohereStreamEncoder,
    encode_error=encode_error,
)
