"""The Conversation screen: stories, and the calls that they are made of."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from cortex_replay.view.shapes.page import Spent

__all__ = ["AnswerDocument", "CallDocument", "RawDocument", "StoryDocument", "StoryStep", "StreamDocument"]


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
