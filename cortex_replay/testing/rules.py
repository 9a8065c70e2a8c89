"""The rules of a script, as values: when a rule fits, and what it answers.

The names of their fields are those of a script's file, so that one table describes both
(`docs/testing.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from cortex_replay import validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest, LlmError, Upstream
from cortex_replay.expressions import Expression, PatternError
from cortex_replay.testing.performance import Performance, respond
from cortex_replay.testing.request_view import RequestView
from cortex_replay.testing.template import fill, fill_json
from cortex_replay.types import LlmRequest, TokenUsage, ToolCall

__all__ = ["Reply", "Rule", "When", "perform"]

_T = TypeVar("_T")

_PLACES: Final = frozenset(["last_user", "last_tool", "model"])
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """What must hold for a rule to fit: all that is given. Nothing given always holds."""

    contains: str | None = None
    """The last user message contains this."""
    equals: str | None = None
    """The last user message is this."""
    matches: str | None = None
    """A regular expression that is found in the last user message."""
    model: str | None = None
    """The model's name, or a pattern for it such as ``claude-*``."""
    system_contains: str | None = None
    """The system text contains this."""
    tool: str | None = None
    """A tool of this name is offered."""
    after_tool: bool | str | None = None
    """Whether the conversation ends with a tool's result; or that it does with one of this tool."""
    json_schema: bool | None = None
    """Whether the request wants its answer to follow a schema."""
    turn: int | None = None
    """This is the n-th call of the adapter for which everything else here holds, counted from 1."""

    def __post_init__(self) -> None:
        for name in ("contains", "equals", "matches", "model", "system_contains", "tool"):
            check.keep(self, name, check.optional_text(getattr(self, name), name))
        if self.matches is not None:
            _check_pattern(self.matches)
        if self.json_schema is not None:
            check.flag(self.json_schema, "json_schema")
        after: object = self.after_tool
        if after is not None and not isinstance(after, bool | str):
            reason = f"expected true, false or the name of a tool, not {check.kind_of(after)}"
            raise InvalidRequest("after_tool", reason)
        if check.optional_whole_number(self.turn, "turn", check.MAX_U32) == 0:
            raise InvalidRequest("turn", "is counted from 1")

    def match(self, view: RequestView) -> dict[str, str] | None:
        """``None`` where this does not hold, ``turn`` aside; else the named groups of ``matches``."""
        request = view.request
        holds = (
            (self.model is None or fnmatchcase(request.model, self.model))
            and (self.system_contains is None or self.system_contains in request.system)
            and (self.json_schema is None or self.json_schema is (request.json_schema is not None))
            and (self.tool is None or view.offers(self.tool))
            and (self.after_tool is None or self._follows(view))
        )
        return self._match_text(view.last_user) if holds else None

    def _match_text(self, text: str | None) -> dict[str, str] | None:
        if text is None:  # nobody said anything that could be looked at
            is_bare = self.contains is None and self.equals is None and self.matches is None
            return {} if is_bare else None
        if self.contains is not None and self.contains not in text:
            return None
        if self.equals is not None and self.equals != text:
            return None
        if self.matches is None:
            return {}
        expression = _expression(self.matches)
        found = expression.search(text)
        return None if found is None else {name: found[i] or "" for name, i in expression.names.items()}

    def _follows(self, view: RequestView) -> bool:
        if isinstance(self.after_tool, str):
            return view.last_tool_name() == self.after_tool
        return view.is_after_tool is self.after_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """One answer. What is not given is absent from it."""

    say: str | None = None
    """The text, streamed word by word."""
    chunks: tuple[str, ...] | None = None
    """The text in exactly these pieces."""
    json: JsonValue = None
    """The text as the compact JSON of this value."""
    think: str | None = None
    """The reasoning before it."""
    call: tuple[ToolCall, ...] = ()
    """The tools that are called; without an id they are numbered."""
    finish_reason: str | None = None
    """``None`` for "tool_calls" where tools are called, and "stop" elsewhere."""
    error: LlmError | None = None
    """Ends the call, once everything else was streamed."""
    delay_ms: int = 0
    """How long each chunk takes to come."""
    usage: TokenUsage | None = None
    """``None`` for counts of words."""

    def __post_init__(self) -> None:
        for name in ("say", "think", "finish_reason"):
            check.keep(self, name, check.optional_text(getattr(self, name), name))
        if self.chunks is not None:
            check.keep(self, "chunks", check.texts(self.chunks, "chunks"))
        check.keep(self, "json", check.free(self.json, "json"))
        check.keep(self, "call", _calls(self.call))
        check.keep(self, "error", _error(self.error))
        check.whole_number(self.delay_ms, "delay_ms", check.MAX_U32)
        if self.usage is not None:
            check.keep(self, "usage", _value(TokenUsage, self.usage, "usage"))
        texts = [name for name in ("say", "chunks", "json") if getattr(self, name) is not None]
        if len(texts) > 1:
            raise InvalidRequest(texts[1], f"stands beside {texts[0]}; an answer has one text")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said here, not even nothing."""
        return not self.call and all(
            getattr(self, name) is None for name in ("say", "chunks", "json", "think", "error")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(_Content):
    """One answer of a rule with several, or of a function."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            say: str | None = None,
            chunks: Sequence[str] | None = None,
            json: object = None,
            think: str | None = None,
            call: ToolCall | Mapping[str, Any] | Sequence[ToolCall | Mapping[str, Any]] = (),
            finish_reason: str | None = None,
            error: LlmError | Mapping[str, Any] | None = None,
            delay_ms: int = 0,
            usage: TokenUsage | Mapping[str, Any] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _Content.__post_init__(self)
        if self.is_empty:
            raise InvalidRequest("say", f"nothing is said: give one of {_CONTENT_NAMES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(_Content):
    """When to answer, and what: with the fields of a :class:`Reply`, or with several of them in turn."""

    when: When = When()
    answers: tuple[Reply, ...] = ()
    """One for each call that the rule answers; the last one again for every call after that."""
    exhaust: bool = False
    """Whether a call after the last of ``answers`` is an error instead."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            when: When | Mapping[str, Any] = ...,
            say: str | None = None,
            chunks: Sequence[str] | None = None,
            json: object = None,
            think: str | None = None,
            call: ToolCall | Mapping[str, Any] | Sequence[ToolCall | Mapping[str, Any]] = (),
            finish_reason: str | None = None,
            error: LlmError | Mapping[str, Any] | None = None,
            delay_ms: int = 0,
            usage: TokenUsage | Mapping[str, Any] | None = None,
            answers: Sequence[str | Reply | Mapping[str, Any]] = (),
            exhaust: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        _Content.__post_init__(self)
        check.keep(self, "when", _value(When, self.when, "when"))
        answers = [
            Reply(say=item) if isinstance(item, str) else _value(Reply, item, f"answers[{i}]")
            for i, item in enumerate(check.items(self.answers, "answers"))
        ]
        check.keep(self, "answers", tuple(answers))
        check.flag(self.exhaust, "exhaust")
        if self.answers:
            for field in fields(_Content):
                if getattr(self, field.name) != field.default:
                    raise InvalidRequest(field.name, "stands beside answers; it belongs into one of them")
        elif self.exhaust:
            raise InvalidRequest("exhaust", "only answers can be exhausted")
        elif self.is_empty:
            raise InvalidRequest("say", f"nothing is said: give one of {_CONTENT_NAMES}, answers")

    def nth(self, given: int) -> _Content | None:
        """What the rule answers after it has answered so often; ``None`` where it is exhausted."""
        if given < len(self.answers):
            return self.answers[given]
        if not self.answers:
            return self
        return None if self.exhaust else self.answers[-1]


_CONTENT_NAMES: Final = "say, chunks, json, think, call, error"


def perform(content: _Content, request: LlmRequest, values: Mapping[str, str] = _NOTHING) -> Performance:
    """An answer to a request, with the places in its texts filled in."""
    chunks = None if content.chunks is None else [fill(chunk, values) for chunk in content.chunks]
    if content.json is not None:
        text = orjson.dumps(fill_json(content.json, values)).decode()
    else:
        text = fill(content.say or "", values) if chunks is None else "".join(chunks)
    response = respond(
        request,
        text,
        None if content.think is None else fill(content.think, values),
        # A copy of each, also where nothing is filled in: what is answered is the caller's to change.
        [
            ToolCall(id=call.id, name=call.name, arguments=fill_json(call.arguments, values))
            for call in content.call
        ],
        content.finish_reason,
        content.usage,
    )
    # An error collects traces of where it was raised, so that each call needs one of its own.
    return Performance(response=response, chunks=chunks, error=copy(content.error), delay_ms=content.delay_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An :class:`Upstream` as a file spells it."""

    status: int
    message: str = ""
    type: str | None = None

    def __post_init__(self) -> None:
        check.whole_number(self.status, "status", 999)
        check.keep(self, "message", check.text(self.message, "message"))
        check.keep(self, "type", check.optional_text(self.type, "type"))


def _error(value: object) -> LlmError | None:
    if value is None or isinstance(value, LlmError):
        return value
    failure = _value(_Failure, value, "error")
    return Upstream(failure.status, failure.message, failure.type)


def _calls(value: object) -> tuple[ToolCall, ...]:
    if isinstance(value, ToolCall | Mapping):
        value = (value,)
    calls = [
        {"arguments": {}, **item} if isinstance(item, Mapping) else item
        for item in check.items(value, "call")
    ]
    return check.values(ToolCall, calls, "call")


def _value(kind: type[_T], value: object, name: str) -> _T:
    """As :func:`check.value_of`; a script's author knows objects, and no classes."""
    if not isinstance(value, kind | Mapping):
        raise InvalidRequest(name, f"expected an object, not {check.kind_of(value)}")
    return check.value_of(kind, value, name)


def _check_pattern(pattern: str) -> None:
    try:
        groups = _expression(pattern).names
    except PatternError as error:
        raise InvalidRequest("matches", f"is not a regular expression: {error}") from None
    if taken := _PLACES & groups.keys():
        raise InvalidRequest("matches", f"a group cannot be named {min(taken)}, which means something else")


@lru_cache(maxsize=256)
def _expression(pattern: str) -> Expression:
    return Expression(pattern, "matches")
