"""The tokens of what is found in one conversation."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from cortex_replay.bindings.finder import Found
from cortex_replay.bindings.forms import form_of, main_form, own_form, token_of
from cortex_replay.bindings.placeholders import placeholder
from cortex_replay.bindings.shapes import SHAPES

__all__ = ["Numbering"]


class Numbering:
    """Gives each value a token, in the order in which they are met.

    Equal values of a shape have one number, and each spelling of a known value has one form.

    Args:
        known: What is known, by token.
    """

    def __init__(self, known: dict[str, str]) -> None:
        self.values: dict[str, str] = {}
        """What was found, by token."""
        self.is_closed = False
        """Whether the request is behind us: what else its answer holds has the name of its own, since the
        request of a replay does not have it either."""
        self._known = known
        self._tokens: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._spellings: dict[tuple[str, str], list[str]] = {}

    def token(self, found: Found, text: str) -> str:
        """What stands for a value that was found."""
        if found.name in SHAPES:
            token = self._numbered(found.name, text)
        else:
            token = self._spelled(found.name, found.form, text)
        self.values[token] = text
        return token

    def take(self, token: str) -> str:
        """The token of a placeholder that stands there already, among those of new finds."""
        stands = placeholder(token)
        name, number, _ = token.partition("#")
        if number and name in SHAPES:
            new = self._tokens.get((name, stands)) or self._numbered(name, stands)
        else:
            name, _, form = token.partition(":")
            new = self._spelled(name, form, stands)
        self.values[new] = stands
        return new

    def filling(self) -> Mapping[str, str]:
        """What every token stands for here: what was met, and else what is known."""
        return ChainMap(self.values, self._known)

    def _numbered(self, name: str, text: str) -> str:
        known = self._tokens.get((name, text))
        if known is not None and not SHAPES[name].is_numbered_alone(text):
            return known
        number = self._counts[name] = self._counts.get(name, 0) + 1
        token = f"{name}#{number}"
        self._tokens.setdefault((name, text), token)
        return token

    def _spelled(self, name: str, form: str, text: str) -> str:
        main = main_form(form)
        met = self._spellings.setdefault((name, main), [])
        if text not in met:
            if self.is_closed:
                return token_of(name, own_form(main, form) if met else form)
            met.append(text)
        return token_of(name, form_of(main, met.index(text)))
