"""The chat completions API, OpenAI's and everybody's."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from cortex_replay.wire.base import Wire
from cortex_replay.wire.openai_chat.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.openai_chat.request import encode_request, lift_request
from cortex_replay.wire.openai_chat.stream import ChatStreamDecoder, ChatStreamEncoder

__all__ = ["OPENAI_CHAT", "MaxTokensField", "openai_chat"]

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


def openai_chat(max_tokens_field: MaxTokensField = "max_tokens") -> Wire:
    """``POST /v1/chat/completions``.

    Args:
        max_tokens_field: The name under which the limit is sent. OpenAI's newer models take only
            ``max_completion_tokens``, and many other servers know only ``max_tokens``.
    """
    return Wire(
        protocol="openai-chat",
        lift=lift_request,
        encode_request=partial(encode_request, max_tokens_field=max_tokens_field),
        read_answer=decode_answer,
        encode_answer=encode_answer,
        stream_decoder=ChatStreamDecoder,
        stream_encoder=ChatStreamEncoder,
        encode_error=encode_error,
        stream_parameters={"stream": True, "stream_options": {"include_usage": True}},
    )


OPENAI_CHAT: Final = openai_chat()
"""With the name of the limit that every server knows."""
