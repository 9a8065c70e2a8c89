"""Binding what is left in a stored request: rules that are newer than it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cortex_replay.bindings.binding import Binding
from cortex_replay.bindings.echoes import EchoFinder
from cortex_replay.bindings.finder import Finder, Found
from cortex_replay.bindings.placeholders import (
    CLOSE,
    ESCAPE,
    OPEN,
    has_literal,
    name_of,
    placeholder,
    rename_tokens,
)

__all__ = ["PLACEHOLDER", "StoredBinding"]

PLACEHOLDER: Final = re.compile(rf"({OPEN}[a-z][a-z0-9_-]*(?:#[0-9]+)?(?::[a-z0-9]+)?{CLOSE})")
"""In a request each stands for a whole value."""


class StoredBinding(Binding):
    """A binding in which the placeholders of a recording stay what they are.

    Numbers are given anew, to them and to what is found beside them, in the order of the texts.

    Args:
        finder: Finds what else is bound.
        known: What is known, by token.
        names: The bindings that the recording says were applied to it; all else is text.
        is_escaping: Whether to escape text that looks like a placeholder.
    """

    def __init__(
        self,
        finder: Finder | EchoFinder,
        known: dict[str, str],
        names: Collection[str],
        *,
        is_escaping: bool = False,
    ) -> None:
        super().__init__(finder, known, is_escaping=is_escaping or ESCAPE in names)
        self._given = names
        self._renames: dict[str, str] = {}

    def text(self, text: str) -> str:
        if OPEN not in text:
            return super().text(text)
        marks = [match for match in PLACEHOLDER.finditer(text) if self._is_mark(match)]
        values: list[tuple[int, int, Found | str]] = [(*mark.span(), mark[0][1:-1]) for mark in marks]
        values += [
            (found.start, found.end, found)
            for found in self.finder.find(text)
            if all(found.end <= mark.start() or found.start >= mark.end() for mark in marks)
        ]
        made: list[str] = []
        at = 0
        for start, end, value in sorted(values, key=lambda one: one[:2]):
            if isinstance(value, str):
                token = self._renames[value] = self.numbering.take(value)
            else:
                token = self.numbering.token(value, text[start:end])
            made += [self.pass_by(text[at:start]), placeholder(token)]
            at = end
        return "".join([*made, self.pass_by(text[at:])])

    def is_literal(self, text: str) -> bool:
        return ESCAPE not in self._given and has_literal(text, self.finder.names - {*self._given})

    def literal(self, text: str) -> str:
        # In an answer placeholders stand among what is found by itself, in pieces too.
        is_escaping = self.is_escaping and ESCAPE not in self._given
        return rename_tokens(text, self._rename, is_escaping=is_escaping)

    def _rename(self, token: str) -> str | None:
        is_mark = ESCAPE in self._given or name_of(token) in self._given
        return self._renames.get(token, token) if is_mark else None

    def _is_mark(self, match: re.Match[str]) -> bool:
        return self._rename(match[0][1:-1]) is not None
