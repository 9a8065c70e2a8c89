"""Where two answers differ, and how much that matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cortex_replay.canonical import JsonValue

__all__ = ["Difference", "Tier", "highest"]


class Tier(IntEnum):
    """How much a difference matters; the greater, the more."""

    SAME = 0
    WORDS = 1
    """Only the wording."""
    BEHAVIOUR = 2
    """The program goes another way."""
    CONTRACT = 3
    """Code that worked may break."""

    @property
    def word(self) -> str:
        """As people and programs write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is another one now."""

    tier: Tier
    kind: str
    """What sort of fact: ``tool``, ``argument``, ``order``, ``finish reason``, ``refusal``, ``schema``, …"""
    place: str
    """Where, for a person: ``search #1 query``, ``answer 2``; may be empty."""
    before: JsonValue
    """``None`` where it was not there."""
    after: JsonValue
    text: str
    """The whole in one sentence, from recorded texts: to be redacted and escaped by who shows it."""

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "tier": self.tier.word,
            "kind": self.kind,
            "place": self.place,
            "before": self.before,
            "after": self.after,
            "text": self.text,
        }


def highest(differences: Iterable[Difference]) -> Tier:
    """The highest tier among some differences."""
    return max((one.tier for one in differences), default=Tier.SAME)
