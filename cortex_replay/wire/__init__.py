"""Codecs for providers' HTTP shapes: pure, and both ways. `docs/wires.md` is their table.

A live adapter lowers a request and decodes an answer; a gateway lifts a request and encodes an
answer. One codec serves both.
"""

from typing import Final

from cortex_replay.wire.anthropic import ANTHROPIC_MESSAGES
from cortex_replay.wire.base import Wire
from cortex_replay.wire.bedrock import BEDROCK_ANTHROPIC, BEDROCK_CONVERSE, BEDROCK_NOVA
from cortex_replay.wire.cohere import COHERE_CHAT
from cortex_replay.wire.gemini import GEMINI_GENERATE
from cortex_replay.wire.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from cortex_replay.wire.openai_chat import openai_chat
from cortex_replay.wire.openai_completions import OPENAI_COMPLETIONS
from cortex_replay.wire.openai_responses import OPENAI_RESPONSES

__all__ = [
    "ANTHROPIC_MESSAGES",
    "GEMINI_GENERATE",
    "OLLAMA_CHAT",
    "OPENAI_RESPONSES",
    "STREAM_MEDIA_TYPES",
    "WIRES",
    "Wire",
    "openai_chat",
]

WIRES: Final[dict[str, Wire]] = {
    wire.protocol: wire
    for wire in (
        ANTHROPIC_MESSAGES,
        openai_chat(),
        OPENAI_RESPONSES,
        OPENAI_COMPLETIONS,
        OLLAMA_CHAT,
        OLLAMA_GENERATE,
        BEDROCK_CONVERSE,
        BEDROCK_ANTHROPIC,
        BEDROCK_NOVA,
        GEMINI_GENERATE,
        COHERE_CHAT,
    )
}
"""Every wire by the name that recordings carry."""

STREAM_MEDIA_TYPES: Final = frozenset(
    [*(wire.stream_media_type for wire in WIRES.values()), "application/jsonl"]
)
"""What is passed on and recorded piece by piece."""
