"""The shapes of the documents that the page shows: the one contract between Python and the page's modules.

Names of documents: ``store``, ``texts`` (only in a file; a live page asks ``search?q=…``), ``stories/ID``,
``calls/ID``, ``raw/ID``, ``change``, ``report``. All texts are redacted; the page makes them harmless.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "AnswerDocument",
    "CallDocument",
    "CallRow",
    "ChangeDocument",
    "ChangeItem",
    "DifferenceDocument",
    "Found",
    "ModelRow",
    "PageDocument",
    "RunRow",
    "Spent",
    "StoreDocument",
    "StoryDocument",
    "StoryStep",
    "StreamDocument",
]

TierWord = Literal["contract", "behaviour", "words", "same"]


class PageDocument(TypedDict):
    """``page``: what there is to look at. The page reads it first."""

    title: str
    version: str
    made_at: str
    """When, as ISO 8601."""
    screens: list[Literal["store", "conversation", "change", "run"]]
    """Those that have something to show, the first to open in front."""
    is_file: bool


class Spent(TypedDict):
    """Tokens, and money where prices are known."""

    prompt: int
    completion: int
    cached: int
    cache_write: int
    money: NotRequired[str]
    """Formatted with its currency."""


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


class StoryStep(TypedDict):
    """A call of a story. Its parts are in ``calls/ID``; this is enough for a list of 500 turns."""

    id: str
    kind: Literal["model", "mcp", "exchange"]
    number: int
    answer: int
    """Which of the answers to its key, from 1."""
    who: str
    what: str
    """The new words of the user, or the tool with its arguments; one line."""
    said: str
    """The first line of the answer, or the result."""
    tools: list[dict[str, Any]]
    """Tool calls of the answer: ``name``, ``arguments``, ``made`` (id of an MCP step or null),
    ``result_in`` (number of a model step or null), ``is_certain``."""
    caused_by: int | None
    at: float | None
    """Seconds since the story began."""
    took_ms: int | None
    finish_reason: str | None
    spent: Spent | None
    cache: dict[str, Any] | None
    """``read``, ``written``, ``share``; ``broke_at``: the block where the cache broke, and ``why``."""


class StoryDocument(TypedDict):
    """``stories/ID``: a run or a test in order."""

    id: str
    name: str
    steps: list[StoryStep]
    spent: Spent


class StreamDocument(TypedDict):
    """A stream on its time line; columns, since there may be 20,000 events."""

    at_ms: list[float]
    delta: list[str]
    kind: list[str]
    """``text``, ``reasoning``, ``tool``, ``event``."""


class AnswerDocument(TypedDict):
    """One answer."""

    text: str
    reasoning: str
    tool_calls: list[dict[str, Any]]
    parsed: Any
    finish_reason: str | None
    spent: Spent | None
    stream: StreamDocument | None
    status: int | None
    """Of a failure."""


class CallDocument(TypedDict):
    """``calls/ID``: everything about one recording. Of long texts the first 256 kB; ``raw/ID`` has all."""

    id: str
    kind: Literal["model", "mcp", "exchange"]
    who: str
    key: str
    path: str
    blake3: str
    index_line: str
    """The row of INDEX.toml that vouches for it, as TOML."""
    system: str
    messages: list[dict[str, Any]]
    """``role``, ``text``, ``tool_calls``, ``tool_call_id``, ``parts``; ``is_new`` for those that the
    request does not continue."""
    tools: list[dict[str, Any]]
    settings: dict[str, Any]
    """What else the model saw: temperature, limits, schemas."""
    answers: list[AnswerDocument]
    mcp: dict[str, Any] | None
    """Of an MCP call: ``server``, ``method``, ``parameters``, ``messages`` with ``at_ms``."""
    blocks: list[dict[str, Any]]
    """The prompt in parts, with sizes, cache marks, and which was read from the cache."""
    facts: list[tuple[str, str]]
    """Where it came from: recorded at, run, scopes, provider, adapter."""
    is_cut: bool


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
    """How many more words-only changes there are than are listed."""
