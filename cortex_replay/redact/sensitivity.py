"""The sensitivity gate: labelled text does not leave for a model that it must not reach.

A label is ``[SENSITIVITY:level]`` or ``[sens:level]`` in any letter case, anywhere in what the model
would see. The levels are ``low``, ``medium`` and ``high``, each a thing of its own; a level that is
none of these counts as high, so that a misspelt label keeps its text at home. Text without a label
passes. `docs/adapters.md` has the table.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.config.settings import SensitivityLevel
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest

__all__ = [
    "Sensitivity",
    "SensitivityLevel",
    "is_above",
    "may_hold_label",
    "refuse_above",
    "refuse_value_above",
]

# Linear: a scan for the end of a label ends at the next bracket, where the next scan begins.
_LABEL: Final = re.compile(r"\[\s*sens(?:itivity)?\s*:([^\[\]]*)\]", re.IGNORECASE)
_GATE: Final = "the allowed sensitivity"
_HINT_OF_ONE: Final = re.compile(
    rb"\[(?:\s|\\[nrtf]|\\u[0-9a-f]{4}|[\x80-\xff])*"  # spaces of every script, written in any way
    rb"(?:s|\xc5\xbf|\\u017f)en(?:s|\xc5\xbf|\\u017f)",  # the long s is one, too
    re.IGNORECASE,
)


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


def refuse_above(request: LlmRequest, most: Sensitivity, gate: str = _GATE) -> None:
    """Refuse a request that holds a label above ``most``; ``gate`` is whose limit that is.

    Everything that the model sees is searched: system, messages, tool calls and their results, tools
    and schema, and text that travels as data.

    Raises:
        InvalidRequest: A label is above; the message says where it stands and not what stands there.
    """
    has_data = any(message.parts for message in request.messages)
    if not has_data and not may_hold_label(request.canonical_bytes()):
        return  # nearly always
    for field, value in _places(request):
        refuse_value_above(value, most, field, gate)


def refuse_value_above(value: JsonValue, most: Sensitivity, field: str, gate: str = _GATE) -> None:
    """Refuse a value that holds a label above ``most`` in one of its texts.

    Raises:
        InvalidRequest: It does; the message does not say what stands there.
    """
    if any(is_above(text, most) for text in _texts(value)):
        raise InvalidRequest(field, f"holds text labelled above {gate} ({most}); nothing was sent")


def may_hold_label(written: bytes) -> bool:
    """Whether it is worth looking for labels in a JSON document: nearly never, and this takes no time."""
    return _HINT_OF_ONE.search(written) is not None


def is_above(text: str, most: Sensitivity) -> bool:
    """Whether a text holds a label above ``most``."""
    return any(_rank_of(match[1]) > most.rank for match in _LABEL.finditer(text))


def _rank_of(level: str) -> int:
    name = level.strip().lower()
    return Sensitivity(name).rank if name in tuple(Sensitivity) else Sensitivity.HIGH.rank


def _places(request: LlmRequest) -> Iterator[tuple[str, JsonValue]]:
    for name, value in request.to_dict().items():
        if name in ("messages", "tools") and isinstance(value, list):
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
        else:
            yield name, value
    for i, message in enumerate(request.messages):
        yield from ((f"messages[{i}].parts[{j}]", _as_text(part)) for j, part in enumerate(message.parts))


def _as_text(part: JsonValue) -> str:
    """The text that a part holds as data, if it is text."""
    data = part.get("data") if isinstance(part, dict) else None
    if not isinstance(data, str):
        return ""
    try:
        return binascii.a2b_base64(data).decode()
    except ValueError:
        return ""


def _texts(value: JsonValue) -> Iterator[str]:
    """Every string of a value, the names of its fields among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
