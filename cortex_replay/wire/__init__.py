"""Codecs for providers' HTTP shapes: pure, and both ways. `docs/wires.md` is their table.

A live adapter lowers a request and decodes an answer; a gateway lifts a request and encodes an
answer. One codec serves both. Each is loaded when it is first asked for: most runs speak one wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from cortex_replay.wire.base import Wire

__all__ = ["WIRES", "Wire", "stream_media_types"]

_PLACES: Final = {
    "anthropic-messages": "anthropic.ANTHROPIC_MESSAGES",
    "openai-chat": "openai_chat.OPENAI_CHAT",
    "openai-responses": "openai_responses.OPENAI_RESPONSES",
    "openai-completions": "openai_completions.OPENAI_COMPLETIONS",
    "ollama-chat": "ollama.OLLAMA_CHAT",
    "ollama-generate": "ollama.OLLAMA_GENERATE",
    "bedrock-converse": "bedrock.BEDROCK_CONVERSE",
    "bedrock-anthropic": "bedrock.BEDROCK_ANTHROPIC",
    "bedrock-nova": "bedrock.BEDROCK_NOVA",
    "gemini-generate": "gemini.GEMINI_GENERATE",
    "cohere-chat": "cohere.COHERE_CHAT",
}
"""The package and the name of each wire, by the protocol that recordings carry."""


class _Wires(Mapping[str, Wire]):
    """The wires by protocol. A class to load one when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Wire] = {}

    def __getitem__(self, protocol: str) -> Wire:
        wire = self._loaded.get(protocol)
        if wire is None:
            package, name = _PLACES[protocol].split(".")
            wire = self._loaded[protocol] = getattr(import_module(f"{__name__}.{package}"), name)
        return wire

    def __contains__(self, protocol: object) -> bool:
        return protocol in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


WIRES: Final[Mapping[str, Wire]] = _Wires()
"""Every wire by the name that recordings carry."""


@cache
def stream_media_types() -> frozenset[str]:
    """What is passed on and recorded piece by piece."""
    return frozenset([*(wire.stream_media_type for wire in WIRES.values()), "application/jsonl"])
