"""The Store screen, and what is found in it."""

from __future__ import annotations

from typing import Literal, TypedDict

from cortex_replay.view.shapes.page import Spent

__all__ = [
    "CallRow",
    "Found",
    "ModelRow",
    "RunRow",
    "SearchDocument",
    "StoreDocument",
    "TextRow",
    "TextsDocument",
]


class CallRow(TypedDict):
    """One recording, on one line of the store's screen."""

    id: str
    """Names its documents: ``calls/ID`` and ``raw/ID``. Letters, digits and ``-`` only."""
    kind: Literal["model", "mcp", "exchange"]
    who: str
    """The model, or the MCP server."""
    key: str
    """Its prompt hash, or the key of an exchange."""
    path: str
    question: str
    answer: str
    """The first line; or what is called."""
    answers: int
    runs: list[str]
    scopes: list[str]
    at: float | None
    """When it was recorded, in seconds since 1970."""
    bytes: int
    spent: Spent | None
    is_old: bool
    is_unused: bool | None
    """``None`` where no report says what was used."""


class ModelRow(TypedDict):
    """A model, and what was asked of it."""

    name: str
    calls: int
    bytes: int
    oldest: float | None
    newest: float | None
    spent: Spent


class RunRow(TypedDict):
    """A run or a test (scope), which is one story."""

    id: str
    """Of ``stories/ID``."""
    name: str
    calls: int
    mcp_calls: int
    at: float | None
    seconds: float | None
    spent: Spent


class StoreDocument(TypedDict):
    """``store``."""

    calls: list[CallRow]
    models: list[ModelRow]
    runs: list[RunRow]
    tests: list[RunRow]
    bytes: int
    spent: Spent
    max_age_days: float | None
    findings: list[str]
    """What the index does not vouch for, and is therefore not shown."""


class Found(TypedDict):
    """A hit of a search."""

    id: str
    where: str
    """``question``, ``system``, ``answer``, ``tool call``, …"""
    before: str
    match: str
    after: str


class SearchDocument(TypedDict):
    """``search?q=…``."""

    found: list[Found]
    is_cut: bool
    """Whether there are more than are listed."""


class TextRow(TypedDict):
    """A text of recordings, once for all that have it."""

    where: str
    """As in :class:`Found`."""
    text: str
    ids: list[str]


class TextsDocument(TypedDict):
    """``texts``: what a file searches in."""

    texts: list[TextRow]
    left_out: int
    """How many texts, or ends of texts, did not fit."""
