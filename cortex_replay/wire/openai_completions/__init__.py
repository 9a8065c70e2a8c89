"""OpenAI's older completions API, which vLLM, llama.cpp and many others serve, too."""

from __future__ import annotations

from typing import Final

from cortex_replay.wire.base import Wire
from cortex_replay.wire.openai_chat.answer import encode_error
from cortex_replay.wire.openai_completions.answer import (
    CompletionStreamDecoder,
    CompletionStreamEncoder,
    decode_answer,
    encode_answer,
)
from cortex_replay.wire.openai_completions.request import encode_request, lift_request

__all__ = ["OPENAI_COMPLETIONS"]

OPENAI_COMPLETIONS: Final = Wire(
    protocol="openai-completions",
    lift=lift_request,
    encode_request=encode_request,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=CompletionStreamDecoder,
    stream_encoder=CompletionStreamEncoder,
    encode_error=encode_error,
    stream_parameters={"stream": True, "stream_options": {"include_usage": True}},
)
