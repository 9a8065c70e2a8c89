"""The sensitivity gate: labelled text does not leave for a model that it must not reach.

A label is ``[SENSITIVITY:level]`` or ``[sens:level]`` in any letter case, anywhere in what the model
would see. The levels are ``low``, ``medium`` and ``high``, each a thing of its own; a level that is
none of these counts as high, so that a misspelt label keeps its text at home. Text without a label
passes. `docs/adapters.md` has the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Literal

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest

__all__ = ["Sensitivity", "SensitivityLevel", "refuse_above"]

SensitivityLevel = Literal["low", "medium", "high"]

_LABEL: Final = re.compile(rb"\[ {0,8}sens(?:itivity)? {0,8}: {0,8}([^\[\]]{0,64}?) {0,8}\]", re.IGNORECASE)


class Sensitivity(StrEnum):
    """How far a text may travel, from the least sensitive up."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        return _RANKS[self]

    @classmethod
    def of(cls, level: Sensitivity | SensitivityLevel) -> Sensitivity:
        """A level by its name.

        Raises:
            InvalidRequest: There is no such level.
        """
        if level not in tuple(cls):
            raise InvalidRequest("max_sensitivity", f"expected low, medium or high, not {level!r}")
        return cls(level)


_RANKS: Final = {level: rank for rank, level in enumerate(Sensitivity)}


def refuse_above(request: LlmRequest, most: Sensitivity) -> None:
    """Refuse a request that holds a label above ``most``.

    The canonical form is searched, which is everything that the model sees: system, messages, tool
    calls and their results, tools and schema.

    Raises:
        InvalidRequest: A label is above; the message says where it stands and not what stands there.
    """
    if _highest(request.canonical_bytes()) <= most.rank:
        return
    for field, value in _places(request.to_dict()):
        if _highest(orjson.dumps(value)) > most.rank:
            reason = f"holds text labelled above the allowed sensitivity ({most}); nothing was sent"
            raise InvalidRequest(field, reason)


def _highest(data: bytes) -> int:
    return max((_rank_of(match[1]) for match in _LABEL.finditer(data)), default=-1)


def _rank_of(level: bytes) -> int:
    name = level.decode(errors="replace").lower()
    return Sensitivity(name).rank if name in tuple(Sensitivity) else Sensitivity.HIGH.rank


def _places(request: dict[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for name, value in request.items():
        if name in ("messages", "tools") and isinstance(value, list):
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
        yield name, value
