"""Ollama's own API: ``/api/chat`` and ``/api/generate``."""

from __future__ import annotations

from functools import partial
from typing import Final

from cortex_replay.wire.base import Wire
from cortex_replay.wire.ollama.answer import (
    OllamaStreamDecoder,
    OllamaStreamEncoder,
    decode_answer,
    encode_answer,
    encode_error,
)
from cortex_replay.wire.ollama.request import encode_chat, encode_generate, lift_chat, lift_generate

__all__ = ["OLLAMA_CHAT", "OLLAMA_GENERATE"]

_NDJSON: Final = "application/x-ndjson"

OLLAMA_CHAT: Final = Wire(
    protocol="ollama-chat",
    lift=lift_chat,
    encode_request=encode_chat,
    read_answer=partial(decode_answer, is_chat=True),
    encode_answer=partial(encode_answer, is_chat=True),
    stream_decoder=partial(OllamaStreamDecoder, is_chat=True),
    stream_encoder=partial(OllamaStreamEncoder, is_chat=True),
    encode_error=encode_error,
    stream_media_type=_NDJSON,
    streams_by_default=True,
)
OLLAMA_GENERATE: Final = Wire(
    protocol="ollama-generate",
    lift=lift_generate,
    encode_request=encode_generate,
    read_answer=partial(decode_answer, is_chat=False),
    encode_answer=partial(encode_answer, is_chat=False),
    stream_decoder=partial(OllamaStreamDecoder, is_chat=False),
    stream_encoder=partial(OllamaStreamEncoder, is_chat=False),
    encode_error=encode_error,
    stream_media_type=_NDJSON,
    streams_by_default=True,
)
