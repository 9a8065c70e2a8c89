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
    "DriftDocument",
    "DriftItem",
    "DriftReport",
    "Found",
    "MissRow",
    "ModelRow",
    "PageDocument",
    "ProblemGroup",
    "RawDocument",
    "ReportDocument",
    "RunReport",
    "RunRow",
    "SearchDocument",
    "ServerRow",
    "Spent",
    "StoreDocument",
    "StoryDocument",
    "StoryStep",
    "StreamDocument",
    "SweepCell",
    "SweepReport",
    "TextRow",
    "TextsDocument",
    "TierWord",
    "UnusedRow",
    "VaryingRow",
    "VerdictWord",
]

TierWord = Literal["contract", "behaviour", "words", "same"]
VerdictWord = Literal["survived", "failed", "missed", "hung", "not applicable"]


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


class StoryStep(TypedDict):
    """A call of a story. Its parts are in ``calls/ID``; this is enough for a list of 500 turns."""

    id: str
    kind: Literal["model", "mcp", "exchange"]
    number: int
    """Its place in the story, from 1; what other steps name it by."""
    answer: int
    """Which of the answers to its key, from 1."""
    who: str
    what: str
    """The new words of the user, or the tool with its arguments; one line."""
    said: str
    """The first line of the answer, or the result."""
    tools: list[dict[str, Any]]
    """Tool calls of the answer: ``name``, ``arguments`` on one line, ``call_id``, ``made`` (the id of the
    MCP call's document or null), ``made_in`` (its number in this story or null), ``server``, ``result_in``
    (the number of the step whose prompt has the result, or null), ``is_certain``."""
    caused_by: int | None
    """The step that led to it: the model whose tool call an MCP call is, or the server that asks a model."""
    at: float | None
    """Seconds since the story began."""
    took_ms: int | None
    finish_reason: str | None
    is_error: bool
    """Whether a server said so, or the call was given up."""
    failures: list[dict[str, Any]]
    """Attempts that failed before this answer: ``status`` and ``text``."""
    spent: Spent | None
    cache: dict[str, Any] | None
    """``read``, ``written``, ``tokens``, ``share``, ``is_reported`` (else it is simulated); ``broke_at``: the
    block where the cache broke, ``why`` in sentences, ``lost`` tokens; ``blocks``: the prompt in segments,
    each ``name``, ``tokens``, ``place``, ``state`` (``read``, ``written``, ``fresh``) and ``mark``."""


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
    left_out: NotRequired[tuple[int, int]]
    """How many characters of the text a change leaves out: in front of what is there, where both sides are
    the same, and behind it."""


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
    continues: str | None
    """The id of the recording whose request has the messages before the new ones."""
    before: int
    """How many these are. Of that request's messages they are the first."""
    goes_back: bool
    """Whether that request has more: the conversation took another way from there."""
    system: str
    system_in: str | None
    """The id of the recording whose document has the system text, if it is not here."""
    messages: list[dict[str, Any]]
    """The new ones: ``role``, ``text``, and where there are any ``tool_calls``, ``tool_call_id``,
    ``is_error``, ``parts`` (``kind`` and ``text``)."""
    tools_in: str | None
    """Likewise, of the tools."""
    tools: list[dict[str, Any]]
    settings: dict[str, Any]
    """What else the model saw: temperature, limits, schemas."""
    answers: list[AnswerDocument]
    """In the order in which they were given, failures among them."""
    mcp: dict[str, Any] | None
    """Of an MCP call: ``server``, ``method``, ``parameters``, ``messages`` with ``at_ms``; ``then``: the
    messages of each answer after the first. A message that is too long has its ``start`` as text."""
    facts: list[tuple[str, str]]
    """Where it came from: recorded at, run, scopes, provider, adapter."""
    is_cut: bool


class RawDocument(TypedDict):
    """``raw/ID``: the file as it is stored, with the hash that the index names."""

    id: str
    path: str
    bytes: int
    text: str
    is_redacted: bool
    """Whether a secret was cut out, so that the text is not what was hashed."""


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


class MissRow(TypedDict):
    """A question that nothing was recorded for."""

    what: str
    explanation: str
    """Several lines, as a terminal shows them."""
    times: int


class ProblemGroup(TypedDict):
    """Things of one sort that went wrong."""

    title: str
    texts: list[str]


class UnusedRow(TypedDict):
    """A recording that the run did not ask for."""

    who: str
    key: str
    path: str
    scope: str


class ServerRow(TypedDict):
    """What an MCP server was asked."""

    name: str
    hits: int
    missed: int
    recorded: int
    live: int
    failed: int


class VaryingRow(TypedDict):
    """A call that is not the same in every run of ``record --again``."""

    scope: str
    runs: list[int]
    call: int | None
    question: str
    differences: list[str]
    is_noise: bool


class RunReport(TypedDict):
    """A ledger: what ``record``, ``replay`` and the plugin report."""

    mode: str
    command_status: int | None
    """``None`` for a report of the plugin."""
    counts: dict[str, int]
    """``hits``, ``missed``, ``recorded``, ``live``, ``repeated``, ``unsent``, ``failed``, ``declined``."""
    tokens: dict[str, int]
    """``prompt``, ``completion``, ``cached``, ``replayed``, ``replayed_cached``."""
    paid: str | None
    """Money with its currency; ``None`` where no prices are known."""
    saved: str | None
    misses: list[MissRow]
    problems: list[ProblemGroup]
    unused: list[UnusedRow]
    unused_count: int
    servers: list[ServerRow]
    bypassed: list[tuple[str, int]]
    """Hosts that were not reached, and how often."""
    remarks: list[tuple[str, int]]


class SweepCell(TypedDict):
    """One run of a sweep: a call, and the fault that met it."""

    turn: int
    tool: str
    """The server and the tool; empty for a call of a model."""
    fault: str
    verdict: VerdictWord
    status: int | None
    calls: int
    again: str
    """The command that makes the same run once more."""
    log: str
    """The end of what the command printed."""


class SweepReport(TypedDict):
    """``sweep --json``."""

    calls: int
    tool_calls: int
    survived: bool
    cells: list[SweepCell]


class DriftReport(TypedDict):
    """``refresh --json``, as the page shows it."""

    asked: int
    tiers: dict[str, int]
    """How many recordings have drifted how much."""
    items: list[ChangeItem]
    """With the recorded answers before, and those of today after."""
    failed: list[str]
    not_asked: list[tuple[str, int]]
    """Reasons, and how many recordings each is true of."""
    beyond_budget: int
    written: list[str]
    paid: str | None


class ReportDocument(TypedDict):
    """``report``: what a command said of a run; one of the three has something."""

    kind: Literal["run", "sweep", "drift"]
    name: str
    """Of the file."""
    runs: list[RunReport]
    varying: list[VaryingRow]
    sweep: SweepReport | None
    drift: DriftReport | None


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
