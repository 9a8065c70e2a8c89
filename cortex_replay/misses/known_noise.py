"""Whether what differs is a value that is known of a run, and was too common to be bound on one side.

Where the user is called ``root``, a recording holds that word as it is; where he is called ``mirabel``, it
holds a placeholder. A rule names the place, and there also the common word is bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cortex_replay.bindings import Surroundings
from cortex_replay.bindings.safety import COMMON, PATHS
from cortex_replay.misses.noise import Noise, Place

__all__ = ["known_noise_of"]

_DATE: Final = "date"
"""Of it, every form is bound without a rule."""
_WORD: Final = re.compile(r"[\w~/](?:[\w./~-]*[\w/])?")
_SHORT: Final = re.compile(r"[A-Za-z0-9]{1,3}")


def known_noise_of(recorded: Place, asked: Place, known: Surroundings) -> Noise | None:
    """The known value that stands on both sides, if there is one.

    Args:
        recorded: What differs, in a line as it is stored.
        asked: The same, in a line as it came.
        known: What is known of the run that asks.
    """
    for name in dict.fromkeys([*known.values, *known.unsafe]):
        forms = [*known.values.get(name, {}).values(), *known.unsafe.get(name, {}).values()]
        value = None if name == _DATE else _value_around(asked, forms)
        there = None if value is None else _recorded_value(recorded, name)
        if value is not None and there is not None:
            return Noise(name, there, value)
    return None


def _value_around(place: Place, texts: Iterable[str]) -> Place | None:
    """A text that the place is a part of, and that stands by itself."""
    for text in sorted(texts, key=len, reverse=True):
        start = place.line.find(text, max(0, place.end - len(text)), place.start + len(text)) if text else -1
        if start < 0:
            continue
        end = start + len(text)
        around = place.line[start - 1 : start] + place.line[end : end + 1]
        if not any(letter.isalnum() or letter == "_" for letter in around):
            return Place(place.line, start, end)
    return None


def _recorded_value(place: Place, name: str) -> Place | None:
    """The placeholder of a name, or a word that is too common to have been bound under it."""
    there = place.placeholder()
    if there is not None:
        return there[1] if there[0] == name else None
    for match in _WORD.finditer(place.line):
        if match.start() <= place.start and place.end <= match.end():
            is_common = (
                match[0] in (*COMMON["path"], "/root")
                if name in PATHS
                else match[0].lower() in COMMON.get(name, ()) or _SHORT.fullmatch(match[0]) is not None
            )
            return Place(place.line, *match.span()) if is_common else None
    return None
