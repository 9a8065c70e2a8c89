"""What is bound in one conversation."""

from __future__ import annotations

from cortex_replay.bindings.echoes import EchoFinder
from cortex_replay.bindings.finder import Finder
from cortex_replay.bindings.numbering import Numbering
from cortex_replay.bindings.placeholders import (
    ESCAPE,
    OPEN,
    Filling,
    escape_literals,
    has_literal,
    name_of,
    placeholder,
)

__all__ = ["Binding"]


class Binding:
    """What is bound in one conversation: a request, and then its answer.

    Args:
        finder: Finds what is bound.
        known: What is known, by token.
        is_escaping: Whether literal text that looks like a placeholder is escaped: all of it, or none.
    """

    def __init__(
        self, finder: Finder | EchoFinder, known: dict[str, str], *, is_escaping: bool = False
    ) -> None:
        self.finder = finder
        self.numbering = Numbering(known)
        self.is_escaping = is_escaping
        self.has_literals = False
        """Whether there was such text."""

    def text(self, text: str) -> str:
        """A text with placeholders for what is bound."""
        found = self.finder.find(text)
        if not found:
            return self.pass_by(text)
        made: list[str] = []
        at = 0
        for one in found:
            token = self.numbering.token(one, text[one.start : one.end])
            made += [self.pass_by(text[at : one.start]), placeholder(token)]
            at = one.end
        return "".join([*made, self.pass_by(text[at:])])

    def pass_by(self, text: str) -> str:
        """Text in which nothing is bound."""
        if OPEN in text and self.is_literal(text):
            self.has_literals = True
        return self.literal(text)

    def is_literal(self, text: str) -> bool:
        """Whether a text holds by itself what looks like a placeholder."""
        return has_literal(text, self.finder.names)

    def literal(self, text: str) -> str:
        """Such text as it is stored."""
        return escape_literals(text) if self.is_escaping else text

    @property
    def names(self) -> tuple[str, ...]:
        """The bindings that were met."""
        return tuple(sorted({*map(name_of, self.numbering.values), *([ESCAPE] if self.is_escaping else [])}))

    @property
    def filling(self) -> Filling:
        """What placeholders stand for here and now."""
        return Filling(self.numbering.filling())
