"""Amazon Bedrock: Converse, and the models' own APIs that are invoked through it."""

from __future__ import annotations

from typing import Final

import orjson

from cortex_replay.types import LlmRequest
from cortex_replay.wire.anthropic.answer import (
    decode_answer as decode_message,
    encode_answer as encode_message,
)
from cortex_replay.wire.anthropic.lift import lift_request as lift_messages
from cortex_replay.wire.anthropic.lower import encode_request as encode_messages
from cortex_replay.wire.anthropic.stream import AnthropicStreamDecoder, AnthropicStreamEncoder
from cortex_replay.wire.base import Wire
from cortex_replay.wire.bedrock.answer import decode_answer, encode_answer, encode_error
from cortex_replay.wire.bedrock.request import encode_converse, encode_nova, lift_converse, lift_nova
from cortex_replay.wire.bedrock.stream import ConverseStreamDecoder, ConverseStreamEncoder
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.event_stream import (
    EVENT_STREAM,
    ChunkFraming,
    EventFraming,
    chunk_message,
    event_message,
)

__all__ = ["BEDROCK_ANTHROPIC", "BEDROCK_CONVERSE", "BEDROCK_NOVA"]

_VERSION: Final = "bedrock-2023-05-31"


def _lift_anthropic(body: object) -> LlmRequest:
    """As of the Messages API, which has the version in a header: SDKs differ in it, and no model sees it."""
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != "anthropic_version"}
    return lift_messages(body)


def _encode_anthropic(request: LlmRequest) -> Body:
    return {"anthropic_version": _VERSION, **encode_messages(request)}


def _converse_event(name: str, payload: Block) -> bytes:
    return event_message(name, orjson.dumps(payload))


def _nova_event(name: str, payload: Block) -> bytes:
    return chunk_message(orjson.dumps({name: payload}))


def _anthropic_event(document: Block) -> bytes:
    return chunk_message(orjson.dumps(document))


BEDROCK_CONVERSE: Final = Wire(
    protocol="bedrock-converse",
    lift=lift_converse,
    encode_request=encode_converse,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=lambda model: ConverseStreamDecoder(EventFraming(), model),
    stream_encoder=lambda _, answer_id: ConverseStreamEncoder(_converse_event, answer_id),
    encode_error=encode_error,
    stream_media_type=EVENT_STREAM,
)
"""``POST /model/{model}/converse`` and ``/converse-stream``."""

BEDROCK_ANTHROPIC: Final = Wire(
    protocol="bedrock-anthropic",
    lift=_lift_anthropic,
    encode_request=_encode_anthropic,
    read_answer=decode_message,
    encode_answer=encode_message,
    stream_decoder=lambda model: AnthropicStreamDecoder(model, ChunkFraming()),
    stream_encoder=lambda model, answer_id: AnthropicStreamEncoder(model, answer_id, _anthropic_event),
    encode_error=encode_error,
    stream_media_type=EVENT_STREAM,
)
"""``POST /model/{model}/invoke`` and ``/invoke-with-response-stream``, of Anthropic's models."""

BEDROCK_NOVA: Final = Wire(
    protocol="bedrock-nova",
    lift=lift_nova,
    encode_request=encode_nova,
    read_answer=decode_answer,
    encode_answer=encode_answer,
    stream_decoder=lambda model: ConverseStreamDecoder(ChunkFraming(), model),
    stream_encoder=lambda _, answer_id: ConverseStreamEncoder(_nova_event, answer_id),
    encode_error=encode_error,
    stream_media_type=EVENT_STREAM,
)
"""The same, of Amazon's Nova models."""
