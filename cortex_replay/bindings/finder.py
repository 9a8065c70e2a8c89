"""Where bound values stand in a text."""

from __future__ import annotations

import re
from typing import NamedTuple

from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.shapes import SHAPES
from cortex_replay.bindings.surroundings import Surroundings

__all__ = ["Finder", "Found", "Numbering"]


class Found(NamedTuple):
    """A bound value in a text."""

    start: int
    end: int
    name: str
    form: str = ""


class Numbering:
    """The values that were found in one conversation: equal ones of a shape have one number."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        """What was found, by token."""
        self._tokens: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def token(self, found: Found, text: str) -> str:
        """What stands for a value that was found."""
        shape = SHAPES.get(found.name)
        if shape is None:
            token = f"{found.name}:{found.form}" if found.form else found.name
        else:
            known = self._tokens.get((found.name, text))
            if known is not None and not shape.is_measured:
                return known
            number = self._counts[found.name] = self._counts.get(found.name, 0) + 1
            token = f"{found.name}#{number}"
            self._tokens.setdefault((found.name, text), token)
        self.values[token] = text
        return token


class Finder:
    """Finds what is bound.

    Args:
        rules: What is configured.
        surroundings: What is known.
    """

    def __init__(self, rules: BindingRules, surroundings: Surroundings) -> None:
        self._shapes = [name for name in rules.shapes if name in SHAPES and name not in rules.off]
        self._literals = sorted(
            (
                (text, name, form)
                for name, forms in surroundings.values.items()
                if name not in rules.off
                for form, text in forms.items()
            ),
            key=lambda literal: -len(literal[0]),
        )
        self.names = frozenset([*(name for _, name, _ in self._literals), *self._shapes])

    def find(self, text: str) -> list[Found]:
        """What is bound in a text, in order; the longest where two overlap."""
        found: list[Found] = []
        for literal, name, form in self._literals:
            if literal in text:
                pattern = rf"(?<![\w.~-]){re.escape(literal)}(?![\w-]|\.\w)"
                found += [Found(*match.span(), name, form) for match in re.finditer(pattern, text)]
        for name in self._shapes:
            found += [Found(*match.span(), name) for match in SHAPES[name].pattern.finditer(text)]
        found.sort(key=lambda one: (one.start, -one.end))
        kept: list[Found] = []
        for one in found:
            if not kept or one.start >= kept[-1].end:
                kept.append(one)
        return kept
