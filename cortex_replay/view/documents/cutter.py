"""What a document may hold of a recorded text: no secret, and no more than can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.redact.names import without_secrets
from cortex_replay.redact.redactor import Redactor

__all__ = ["Cutter", "cut_short"]

LONGEST_TEXT: Final = 256 * 1024
"""Of a text in a document; the file itself has all of it."""


class Cutter:
    """Takes secrets out of texts, and then what is too long; it remembers whether something was."""

    def __init__(self, redactor: Redactor, most: int = LONGEST_TEXT) -> None:
        self.redactor = redactor
        self.is_cut = False
        self._most = most

    def text(self, text: str) -> str:
        """A text. Secrets go first: half of one would not be known for one."""
        clean = self.redactor.text(text)[0]
        self.is_cut |= len(clean) > self._most
        return clean[: self._most]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """The pieces of one text; those behind the end are empty."""
        clean = self.redactor.pieces(pieces)[0]
        left, shown = self._most, []
        for piece in clean:
            shown.append(piece[:left])
            self.is_cut |= len(piece) > left
            left -= len(shown[-1])
        return shown

    def json(self, value: JsonValue) -> JsonValue:
        """A value; one that is too long becomes the start of its text."""
        clean = without_secrets(value, self.redactor)
        written = compact(clean)
        if len(written) <= self._most:
            return clean
        self.is_cut = True
        return written[: self._most]


def cut_short(text: str, longest: int) -> str:
    """A text that is no longer than this; one that was cut says so at its end."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
