"""What a recording was asked, in one line."""

from __future__ import annotations

import os
import sys
from typing import Final
from unicodedata import combining, east_asian_width

from cortex_replay.cli import output
from cortex_replay.history.questions import describe_question
from cortex_replay.types import LlmRequest

__all__ = ["question_of", "shorten", "terminal_width"]

_ELLIPSIS: Final = "…"


def question_of(request: LlmRequest | None) -> str | None:
    """The first line of the last thing that a user said, without secrets, and how much was said after it.

    ``None`` where nothing was said at all, or the recording does not hold its request.
    """
    return describe_question(request, output.redact)


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
