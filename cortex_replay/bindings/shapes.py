"""Values that are known by their shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["SHAPES", "Shape"]

_START: Final = r"(?<![0-9A-Za-z])"
_END: Final = r"(?![0-9A-Za-z])"


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of value that programs make up or measure."""

    pattern: re.Pattern[str]
    is_measured: bool = False
    """Whether two of them may be equal by chance: each is then numbered by itself. Else equal ones share
    a number."""


SHAPES: Final[Mapping[str, Shape]] = {
    "uuid": Shape(
        re.compile(
            rf"{_START}[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-[147][0-9a-fA-F]{{3}}-[89abAB][0-9a-fA-F]{{3}}-[0-9a-fA-F]{{12}}{_END}"
        )
    ),
    "ulid": Shape(re.compile(rf"{_START}0[0-7][0-9A-HJKMNP-TV-Z]{{24}}{_END}")),
}
