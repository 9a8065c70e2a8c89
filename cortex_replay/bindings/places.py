"""Values that a rule names a place for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cortex_replay.bindings.boundaries import BOUNDARIES
from cortex_replay.bindings.rules import PlaceRule
from cortex_replay.bindings.safety import COMMON, PATHS
from cortex_replay.bindings.shapes import SHAPES
from cortex_replay.bindings.surroundings import NOWHERE, Surroundings

__all__ = ["Place"]

_LONGEST: Final = 512
"""Of a value with a shape."""
_SHORT: Final = re.compile(r"[A-Za-z0-9]{1,3}")
"""A value that is too short to be bound elsewhere."""


class Place:
    """The place of a rule, and what may stand there.

    Args:
        rule: The rule.
        surroundings: What is known now. Nowhere, the common values are looked for: a recording that was made
            where it was one of them holds it as it was.
    """

    def __init__(self, rule: PlaceRule, surroundings: Surroundings) -> None:
        self.name = rule.bind
        self._before, self._after = rule.before, rule.after
        shape = SHAPES.get(rule.bind)
        if shape is not None:
            self._forms: Mapping[str, str] = {}
            value = shape.between(rule.before, rule.after)
        else:
            self._forms = _texts_of(rule.bind, surroundings)
            texts = [re.escape(text) for text in sorted(self._forms, key=len, reverse=True)]
            if surroundings == NOWHERE and rule.bind not in PATHS:
                texts.append(_SHORT.pattern)
            value = f"(?:{'|'.join(texts) or '(?!)'})"
        self._value = re.compile(f"{value}(?={re.escape(rule.after)})")

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where the value starts and ends, and its form."""
        if self._before not in text or self._after not in text:
            return
        for start, end in self._anchored(text) if self._before else self._anywhere(text):
            value = text[start:end]
            if not self._forms or self._is_whole(text, start, end):
                yield start, end, self._forms.get(value, "")

    def _anchored(self, text: str) -> Iterator[tuple[int, int]]:
        at = text.find(self._before)
        while at >= 0:
            start = at + len(self._before)
            if match := self._value.match(text, start, start + _LONGEST + len(self._after)):
                yield match.span()
            at = text.find(self._before, at + 1)

    def _anywhere(self, text: str) -> Iterator[tuple[int, int]]:
        yield from (match.span() for match in self._value.finditer(text))

    def _is_whole(self, text: str, start: int, end: int) -> bool:
        """Whether a known value stands by itself on the sides that the rule says nothing of."""
        boundary = BOUNDARIES["path" if text[start] == "/" else "word"]
        return (bool(self._before) or start == 0 or boundary.is_start(text, start)) and (
            bool(self._after) or end == len(text) or boundary.is_end(text, end)
        )


def _texts_of(name: str, surroundings: Surroundings) -> dict[str, str]:
    """The forms of a known value, by their texts."""
    known = [*surroundings.values.get(name, {}).items(), *surroundings.unsafe.get(name, {}).items()]
    if known:
        return {text: form for form, text in known[::-1] if text}
    if surroundings != NOWHERE:
        return {}
    if name in PATHS:
        return dict.fromkeys([*COMMON["path"], "/root"], "")
    words = COMMON.get(name, frozenset())
    return dict.fromkeys([spelled for word in words for spelled in (word, word.upper(), word.title())], "")
