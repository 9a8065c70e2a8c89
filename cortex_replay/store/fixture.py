"""One fixture: what a call answered, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.types import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    StreamChunk,
    TokenUsage,
    ToolCall,
)

__all__ = ["Answer", "Fixture", "FixtureKey", "RequestLink", "TimedChunk", "bindings_in", "moment_in"]


class FixtureKey(NamedTuple):
    """What a fixture is found by."""

    model: str
    prompt_hash: str

    @property
    def short(self) -> str:
        """The model and the start of the hash, for a message."""
        return f"{self.model} {self.prompt_hash[:16]}"


class TimedChunk(NamedTuple):
    """A recorded piece of a stream, and when it came, counted from the start of the call."""

    at_ms: int | float
    chunk: StreamChunk


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer; ``stream`` is empty where the call was not streamed."""

    text: str
    parsed_json: JsonValue = None
    model: str | None = None
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    stream: tuple[TimedChunk, ...] = ()
    wire: dict[str, JsonValue] | None = None
    meta: dict[str, JsonValue] | None = None

    def response(self, asked_model: str) -> LlmResponse:
        """The answer to a request for ``asked_model``; its JSON is the caller's own to change."""
        return LlmResponse(
            text=self.text,
            parsed_json=deepcopy(self.parsed_json),
            model=asked_model if self.model is None else self.model,
            usage=self.usage,
            raw_hash=blake3_hex(self.text.encode()),
            finish_reason=self.finish_reason,
            tool_calls=deepcopy(self.tool_calls),
            reasoning=self.reasoning,
        )


@dataclass(frozen=True, slots=True)
class RequestLink:
    """What a file says of a request that is not whole in it (:mod:`.requests.links` puts it together)."""

    continues: str | None = None
    """The prompt hash of the recorded request that this one continues; then only ``messages`` are new."""
    messages: tuple[LlmMessage, ...] = ()
    own: Mapping[str, JsonValue] = field(default_factory=dict)
    """Without ``continues``, the fields that stand in the file itself."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """By the name of a field, the hash of the part that has its value."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A parsed fixture. ``answers`` holds at least one; the n-th call gets the n-th."""

    key: FixtureKey
    answers: tuple[Answer, ...]
    request: LlmRequest | None = None
    """What was asked, where the fixture says so (one written by ``crtx-llm`` does not)."""
    meta: dict[str, JsonValue] | None = None
    link: RequestLink | None = None
    """Where the rest of its request is; ``request`` is ``None`` then. A store completes what it hands out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", FixtureKey(*self.key))  # a plain pair will do
        if not self.answers or not all(isinstance(answer, Answer) for answer in self.answers):
            raise InvalidRequest("answers", "expected at least one Answer, and nothing else")
        if self.request is not None and self.request.model != self.key.model:
            raise InvalidRequest("key.model", "is not the model of the request")

    @classmethod
    def of(
        cls,
        request: LlmRequest,
        *answers: str | Answer | LlmResponse,
        meta: dict[str, JsonValue] | None = None,
    ) -> Fixture:
        """A fixture for a request, with its answers in the order of the calls that get them.

        Args:
            request: What was asked; its key is the fixture's.
            answers: A text, a whole :class:`Answer`, or a response as an adapter gave it.
            meta: For people and reports, such as ``recorded_at``.
        """
        recorded = tuple(
            Answer(answer) if isinstance(answer, str) else _as_answer(answer, request) for answer in answers
        )
        return cls(FixtureKey(request.model, request.prompt_hash()), recorded, request, meta)

    @property
    def is_request_redacted(self) -> bool:
        """Whether a secret was cut out of the stored request, so that it cannot hash to the key."""
        redactions = (self.meta or {}).get("redactions")
        return isinstance(redactions, list) and any(
            isinstance(item, dict) and item.get("kind") == "value" and item.get("where") == "request"
            for item in redactions
        )


def bindings_in(meta: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """The bindings that a recording says were applied to it."""
    names = None if meta is None else meta.get("bindings")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def moment_in(meta: Mapping[str, JsonValue] | None, name: str) -> datetime | None:
    """A time that a recording says, such as ``recorded_at``; in UTC where it names no zone."""
    text = None if meta is None else meta.get(name)
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC) if moment else None


def _as_answer(answer: Answer | LlmResponse, request: LlmRequest) -> Answer:
    if isinstance(answer, Answer):
        return answer
    return Answer(
        answer.text,
        answer.parsed_json,
        None if answer.model == request.model else answer.model,
        answer.usage,
        answer.finish_reason,
        answer.tool_calls,
        answer.reasoning,
    )
