"""Codecs for five providers' HTTP shapes: pure, and both ways. `docs/wires.md` is their table.

A live adapter lowers a request and decodes an answer; a gateway lifts a request and encodes an
answer. One codec serves both.
"""

from typing import Final

from cortex_replay.wire.anthropic import AnthropicMessages
from cortex_replay.wire.base import Wire
from cortex_replay.wire.ollama import OllamaChat, OllamaGenerate
from cortex_replay.wire.openai_chat import ChatCompletions
from cortex_replay.wire.openai_responses import Responses
from cortex_replay.wire.streams import StreamDecoder, StreamEncoder

__all__ = [
    "WIRES",
    "AnthropicMessages",
    "ChatCompletions",
    "OllamaChat",
    "OllamaGenerate",
    "Responses",
    "StreamDecoder",
    "StreamEncoder",
    "Wire",
]

WIRES: Final[dict[str, Wire]] = {
    wire.protocol: wire
    for wire in (AnthropicMessages(), ChatCompletions(), Responses(), OllamaChat(), OllamaGenerate())
}
"""Every wire by the name that recordings carry."""
