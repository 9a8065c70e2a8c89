"""System texts, which every provider puts somewhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cortex_replay.types import LlmMessage, LlmRole

__all__ = ["BLANK_LINE", "is_plain_system", "join_system", "split_leading_system", "system_texts"]


BLANK_LINE: Final = "\n\n"
"""What stands between two system texts."""


def join_system(texts: Iterable[str]) -> str:
    """The one system text. Splitting it, for the sake of a cache, does not change it."""
    return BLANK_LINE.join(text for text in texts if text)


def split_leading_system(messages: list[LlmMessage]) -> tuple[list[LlmMessage], list[LlmMessage]]:
    """The system messages that a conversation starts with, and the rest of it."""
    count = 0
    while count < len(messages) and messages[count].role is LlmRole.SYSTEM:
        count += 1
    return messages[:count], messages[count:]


def system_texts(messages: Iterable[LlmMessage]) -> list[str]:
    """The texts of system messages, each block for itself."""
    texts: list[str] = []
    for message in messages:
        blocks = [part for part in message.parts if isinstance(part, dict) and part.get("type") == "text"]
        texts += [str(block.get("text", "")) for block in blocks] or [message.content]
    return texts


def is_plain_system(message: LlmMessage) -> bool:
    """Whether a system message is text and nothing else."""
    return all(
        isinstance(part, dict) and part.get("type") == "text" and set(part) == {"type", "text"}
        for part in message.parts
    )
