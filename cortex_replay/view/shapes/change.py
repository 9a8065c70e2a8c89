"""The Change screen: two sides of a store, or recorded answers and those of today."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from cortex_replay.view.shapes.conversation import AnswerDocument

__all__ = ["ChangeDocument", "ChangeItem", "DifferenceDocument", "DriftDocument", "DriftItem", "TierWord"]

TierWord = Literal["contract", "behaviour", "words", "same"]


class DifferenceDocument(TypedDict):
    """A :class:`cortex_replay.behaviour.differences.Difference`."""

    tier: TierWord
    kind: str
    place: str
    before: Any
    after: Any
    text: str


class ChangeItem(TypedDict):
    """One recording, or one road, that changed."""

    id: str
    change: Literal["changed", "added", "removed", "replaced", "road"]
    tier: TierWord
    title: str
    """The question, in one line."""
    who: str
    key: str
    path: str
    scopes: list[str]
    why: str
    """Of one that replaces another, what they have in common."""
    differences: list[DifferenceDocument]
    before: list[AnswerDocument]
    after: list[AnswerDocument]


class ChangeDocument(TypedDict):
    """``change``: two sides of a store, compared; the most important first."""

    base: str
    head: str
    counts: dict[str, int]
    """By tier; and ``added``, ``removed``."""
    items: list[ChangeItem]
    left_out: int
    """How many more items of the tiers ``words`` and ``same`` there are than are listed."""
    findings: NotRequired[list[str]]
    """Files of either side that the index does not vouch for, and why; they are not compared."""


class DriftItem(ChangeItem):
    """A recording that was asked again, and answered otherwise."""

    model: str
    prompt_hash: str
    blake3: str
    scope: str
    provider: str
    """Who answers today."""
    samples: int
    """How many answers of today it was judged by."""
    is_confirmed: bool
    """Whether it was asked as often as it takes; the budget may have ended that."""
    written_to: str | None
    """The file that holds its answers of today now."""


class DriftDocument(TypedDict):
    """``refresh --json``: recorded answers, and those of today; the most important first."""

    asked: int
    tiers: dict[str, int]
    """How many recordings have drifted how much."""
    changed: list[DriftItem]
    written: list[str]
    """The files that hold an answer of today now."""
    outdated: list[str]
    """The files of later turns, which go on from an answer that is another one now."""
    failed: list[dict[str, str]]
    """Each a row of the index, and ``message``."""
    not_asked: list[dict[str, str]]
    """Each a row of the index, and ``reason``."""
    beyond_budget: list[dict[str, str]]
    sample: dict[str, Any] | None
    """``sample``, ``by``, ``seed`` and ``not_chosen``; ``None`` where everything was to be asked."""
    exchanges: list[str]
    tools: list[str]
    cached_tokens: int
    money: dict[str, Any] | None
