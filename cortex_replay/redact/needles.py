"""Many values that are looked for in one text.

An import may know hundreds of values: each response of a recorded server has a cookie of its own. Looking
through a long text for one after the other takes as long as there are values. But what has no blanks and no
quotes in it stands in one word, and prose and JSON have few words that are as long as a key. So a text is cut
into words once, if it has a long one at all, and the values are looked for in what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["Needles"]

_Text = TypeVar("_Text", str, bytes)
_LONG: Final = 20
_FEW: Final = 8
"""So many are found sooner one by one."""
_IN_WORD: Final = bytes(
    ord("#") if 33 <= code <= 126 and code != ord('"') else ord(" ") for code in range(256)
)
"""Which bytes a long word is made of; what was decoded from no text has none that are long."""


class Needles(Generic[_Text]):
    """Texts, or bytes, to be looked for.

    Args:
        wanted: What to look for; nothing of it is empty.
        blank: A space of the same kind.
        quote: A quotation mark of the same kind.
    """

    def __init__(self, wanted: Iterable[_Text], blank: _Text, quote: _Text) -> None:
        every = list(wanted)
        self._blank: _Text = blank
        self._quote: _Text = quote
        self._long: list[_Text] = [
            needle for needle in every if len(needle) >= _LONG and b" " not in _classes(needle)
        ]
        if len(self._long) <= _FEW:
            self._long = []
        long = set(self._long)
        self._others: list[_Text] = [needle for needle in every if needle not in long]
        self._shortest = min(map(len, self._long), default=0)
        self._row = b"#" * self._shortest

    def found_in(self, text: _Text) -> Iterator[_Text]:
        """Those that stand in a text."""
        yield from (needle for needle in self._others if needle in text)
        if self._long and self._row in _classes(text) and (words := self._long_words(text)):
            yield from (needle for needle in self._long if needle in words)

    def any_in(self, text: _Text) -> bool:
        """Whether any of them stands in a text."""
        return next(self.found_in(text), None) is not None

    def _long_words(self, text: _Text) -> _Text:
        shortest = self._shortest
        return self._blank.join([word for word in self._words(text) if len(word) >= shortest])

    def _words(self, text: _Text) -> list[_Text]:
        return text.replace(self._quote, self._blank).split()


def _classes(text: str | bytes) -> bytes:
    """Of each byte, whether it may stand in a long word."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return data.translate(_IN_WORD)
