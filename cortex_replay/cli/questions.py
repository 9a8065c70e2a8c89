"""What a recording was asked, in one line."""

from __future__ import annotations

import os
import sys
from typing import Final
from unicodedata import combining, east_asian_width

from cortex_replay.cli import output
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["question_of", "shorten", "terminal_width"]

_ELLIPSIS: Final = "…"


def question_of(request: LlmRequest | None) -> str | None:
    """The first line of the last thing that a user said, and how much was said after it.

    A loop with tools asks the same question several times; only what follows it tells its calls apart.
    Secrets are cut out of the whole text, before one of them is cut in two. ``None`` where nothing was said
    at all, or the recording does not hold its request.
    """
    if request is None:
        return None
    spoken = [at for at, message in enumerate(request.messages) if message.role is LlmRole.USER]
    if not spoken:
        return _first_line(request.messages[-1].content if request.messages else request.system) or None
    last = spoken[-1]
    following = len(request.messages) - last - 1
    line = _first_line(request.messages[last].content) or _kinds(request.messages[last])
    return f"{line} (+{output.count(following, 'message')})" if following else line or None


def _first_line(text: str) -> str:
    """The first line with something on it."""
    lines = (line.strip() for line in output.redact(text).splitlines())
    return next(filter(None, lines), "")


def _kinds(message: LlmMessage) -> str:
    """What a turn without a text consists of: ``[image]``."""
    kinds = [str(part.get("type")) for part in message.parts if isinstance(part, dict)]
    return f"[{', '.join(dict.fromkeys(kinds))}]" if kinds else ""


def terminal_width() -> int | None:
    """How many columns the reader has; ``None`` if it is a file or a program."""
    if not output.is_terminal(sys.stdout):
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or None


def shorten(text: str, columns: int) -> str:
    """The start of a text that fits into so many columns of a terminal."""
    used, end = 0, 0  # what fits with an ellipsis behind it
    for at, character in enumerate(text, start=1):
        used += _columns_of(character)
        if used > columns:
            return text[:end] + _ELLIPSIS
        if used < columns:
            end = at
    return text


def _columns_of(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
