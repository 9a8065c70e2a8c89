"""A fixture as JSON: its bytes, and what they say.

Reading is tolerant where ``crtx-llm`` is (unknown fields, null for absent) and strict everywhere
else; `docs/store-format.md` describes each field. Nothing here decides about trust.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self, TypeVar

import orjson

from cortex_replay import validation
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import is_digest
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, RequestLink, TimedChunk
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import (
    REQUEST_FIELDS,
    LlmMessage,
    LlmRequest,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)

__all__ = [
    "PART_FIELDS",
    "FixtureError",
    "RenderedFixture",
    "fixture_in",
    "is_short",
    "may_be_short",
    "parse_fixture",
    "parse_part",
    "part_in",
    "read_document",
    "render_document",
    "render_fixture",
]

_CALL: Final = ("id", "name", "arguments")
_PIECE: Final = ("index", "id", "name", "arguments")
PART_FIELDS: Final = frozenset(["system", "tools"])
"""What may stand in a part instead of in each of the requests that have it."""
_COUNTS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
)


class FixtureError(ValueError):
    """The JSON is not a fixture; the message names the field and never quotes content.

    ``code`` is that of the finding it becomes.
    """

    def __init__(self, reason: str, code: str = "fixture-invalid") -> None:
        super().__init__(reason)
        self.code = code


class RenderedFixture(NamedTuple):
    """A fixture, and the bytes that it is written as."""

    fixture: Fixture
    data: bytes

    @classmethod
    def of(cls, fixture: Fixture) -> Self:
        """A fixture and the bytes in which this project writes it."""
        return cls(fixture, render_fixture(fixture))


def read_document(data: bytes) -> dict[str, JsonValue]:
    """The one JSON object that a file of a store is.

    Raises:
        FixtureError: It is not.
    """
    try:
        document = loads(data)
    except JsonError as error:
        raise FixtureError(str(error), "json-malformed") from None
    return _object(document, "the file")


def parse_fixture(data: bytes) -> Fixture:
    """Read one fixture.

    Raises:
        FixtureError: The bytes are not JSON, or the JSON is not a fixture.
    """
    return fixture_in(read_document(data))


def fixture_in(document: Mapping[str, JsonValue]) -> Fixture:
    """The fixture that a document is.

    Raises:
        FixtureError: It is none.
    """
    match = _object(document.get("request_match"), "request_match")
    key = FixtureKey(_str(match, "model", "request_match"), _str(match, "prompt_hash", "request_match"))
    if not is_digest(key.prompt_hash):
        raise FixtureError("request_match.prompt_hash: expected 64 lower-case hex digits", "hash-spelling")
    answers = [_answer(document, "")]
    answers += [_answer(_object(item, at), f"{at}.") for item, at in _items(document.get("then"), "then")]
    meta = _optional_object(document.get("meta"), "meta")
    link = _link(document.get("request"))
    request = _request(document.get("request"), key) if link is None else None
    return Fixture(key, tuple(answers), request, meta, link)


def may_be_short(data: bytes) -> bool:
    """Whether the request of a file may not stand in it whole; most files can be told at a glance."""
    return b'"continues"' in data or b'"parts"' in data or b"\\u" in data  # a name may be spelled so


def is_short(data: bytes) -> bool:
    """Whether the request of a fixture does not stand in its file whole."""
    return may_be_short(data) and parse_fixture(data).link is not None


def part_in(document: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """What the requests of many fixtures share: one field of a request, and its value.

    Raises:
        FixtureError: The document is something else.
    """
    if len(document) != 1 or not document.keys() <= PART_FIELDS:
        raise FixtureError(f"expected one of {' and '.join(sorted(PART_FIELDS))}, and nothing else")
    return document


def parse_part(data: bytes) -> Mapping[str, JsonValue]:
    """Read one part.

    Raises:
        FixtureError: The bytes are not JSON, or the JSON is no part.
    """
    return part_in(read_document(data))


def render_fixture(fixture: Fixture) -> bytes:
    """The bytes of a fixture, in the one form in which this project writes it."""
    first, *then = fixture.answers
    document: dict[str, Any] = {"request_match": fixture.key._asdict()}
    if fixture.link is not None:
        document["request"] = _link_document(fixture.link)
    elif fixture.request is not None:
        document["request"] = fixture.request.to_dict()
    document |= _answer_document(first)
    if then:
        document["then"] = [
            _answer_document(answer) | ({} if answer.meta is None else {"meta": answer.meta})
            for answer in then
        ]
    if fixture.meta is not None:
        document["meta"] = fixture.meta
    return render_document(document)


def render_document(document: dict[str, Any]) -> bytes:
    """A file of a store as it is written: so that a person can review it in a diff."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _answer_document(answer: Answer) -> dict[str, Any]:
    response: dict[str, Any] = {"text": answer.text}
    if answer.parsed_json is not None:
        response["parsed_json"] = answer.parsed_json
    if answer.model is not None:
        response["model"] = answer.model
    if answer.usage is not None:
        response["usage"] = answer.usage.to_dict()
    if answer.finish_reason is not None:
        response["finish_reason"] = answer.finish_reason
    if answer.tool_calls:
        response["tool_calls"] = [call.to_dict() for call in answer.tool_calls]
    if answer.reasoning is not None:
        response["reasoning"] = answer.reasoning
    rendered: dict[str, Any] = {"response": response}
    if answer.wire is not None:
        rendered["wire"] = answer.wire
    elif answer.stream:
        rendered["stream"] = [_chunk_document(timed) for timed in answer.stream]
    return rendered


def _chunk_document(timed: TimedChunk) -> dict[str, Any]:
    rendered: dict[str, Any] = {"at_ms": timed.at_ms, "delta": timed.chunk.delta}
    if timed.chunk.finish_reason is not None:
        rendered["finish_reason"] = timed.chunk.finish_reason
    if timed.chunk.tool_calls:
        rendered["tool_calls"] = [piece.to_dict() for piece in timed.chunk.tool_calls]
    if timed.chunk.reasoning is not None:
        rendered["reasoning"] = timed.chunk.reasoning
    return rendered


def _request(value: JsonValue, key: FixtureKey) -> LlmRequest | None:
    if value is None:
        return None
    request = _object(value, "request")
    if not request.keys() <= REQUEST_FIELDS:
        raise FixtureError("request: has a field that is no part of the key")
    try:
        return LlmRequest.from_dict({"model": key.model, **request})
    except InvalidRequest as error:
        raise FixtureError(f"request: {error.field}: {error.reason}") from None


def _link(value: JsonValue) -> RequestLink | None:
    """What a request says of where the rest of it is, if it does not stand there whole."""
    if not isinstance(value, dict) or not ("continues" in value or "parts" in value):
        return None
    continues = _optional_str(value, "continues", "request")
    if continues is not None:
        if value.keys() != {"continues", "messages"}:
            raise FixtureError("request: one that continues another has its new messages, and nothing else")
        if not is_digest(continues):
            raise FixtureError("request.continues: expected 64 lower-case hex digits", "hash-spelling")
        return RequestLink(continues, _messages(value["messages"]))
    given = _object(value.get("parts"), "request.parts")
    parts = {name: digest for name, digest in given.items() if isinstance(digest, str) and is_digest(digest)}
    if not parts or len(parts) != len(given) or not parts.keys() <= PART_FIELDS:
        raise FixtureError("request.parts: expected names of fields, each with 64 lower-case hex digits")
    own = {name: field for name, field in value.items() if name != "parts"}
    if own.keys() & parts.keys() or not own.keys() <= REQUEST_FIELDS:
        raise FixtureError("request: has a field twice, or one that is no part of the key")
    return RequestLink(None, (), own, parts)


def _messages(value: JsonValue) -> tuple[LlmMessage, ...]:
    """New messages of a conversation, of which a system message may be the first."""
    if not isinstance(value, list):
        raise FixtureError("request.messages: expected a list")
    try:
        return validation.values(LlmMessage, value, "messages")
    except InvalidRequest as error:
        raise FixtureError(f"request: {error.field}: {error.reason}") from None


def _link_document(link: RequestLink) -> dict[str, Any]:
    if link.continues is not None:
        return {"continues": link.continues, "messages": [message.to_dict() for message in link.messages]}
    return {**link.own, "parts": dict(link.parts)}


def _answer(holder: Mapping[str, JsonValue], where: str) -> Answer:
    response = _object(holder.get("response"), f"{where}response")
    inside = f"{where}response"
    return Answer(
        text=_str(response, "text", inside),
        parsed_json=response.get("parsed_json"),
        model=_optional_str(response, "model", inside),
        usage=_usage(response.get("usage"), f"{inside}.usage"),
        finish_reason=_optional_str(response, "finish_reason", inside),
        tool_calls=_tool_calls(response.get("tool_calls"), f"{inside}.tool_calls"),
        reasoning=_optional_str(response, "reasoning", inside),
        stream=_stream(holder.get("stream"), f"{where}stream"),
        wire=_optional_object(holder.get("wire"), f"{where}wire"),
        meta=_optional_object(holder.get("meta"), f"{where}meta") if where else None,
    )


def _usage(value: JsonValue, where: str) -> TokenUsage | None:
    if value is None:
        return None
    return _construct(TokenUsage, _pick(value, _COUNTS, where), where)


def _tool_calls(value: JsonValue, where: str) -> tuple[ToolCall, ...]:
    return tuple(_construct(ToolCall, _pick(item, _CALL, at), at) for item, at in _items(value, where))


def _stream(value: JsonValue, where: str) -> tuple[TimedChunk, ...]:
    chunks = []
    for item, at in _items(value, where):
        chunk = _object(item, at)
        at_ms = chunk.get("at_ms")
        if not isinstance(at_ms, int | float) or isinstance(at_ms, bool) or at_ms < 0:
            raise FixtureError(f"{at}.at_ms: expected a time in milliseconds")
        pieces = tuple(
            _construct(ToolCallDelta, _pick(piece, _PIECE, piece_at), piece_at)
            for piece, piece_at in _items(chunk.get("tool_calls"), f"{at}.tool_calls")
        )
        delta, finish_reason = _str(chunk, "delta", at), _optional_str(chunk, "finish_reason", at)
        reasoning = _optional_str(chunk, "reasoning", at)
        chunks.append(TimedChunk(at_ms, StreamChunk(delta, finish_reason, pieces, reasoning)))
    return tuple(chunks)


_T = TypeVar("_T")


def _construct(kind: Callable[..., _T], values: Mapping[str, JsonValue], where: str) -> _T:
    try:
        return kind(**values)
    except InvalidRequest as error:
        raise FixtureError(f"{where}.{error.field}: {error.reason}") from None
    except TypeError:
        raise FixtureError(f"{where}: lacks a field") from None


def _object(value: JsonValue, where: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise FixtureError(f"{where}: expected an object")
    return value


def _pick(value: JsonValue, names: tuple[str, ...], where: str) -> dict[str, JsonValue]:
    """The fields we know; null counts as absent, and what is unknown is ignored."""
    holder = _object(value, where)
    return {name: holder[name] for name in names if holder.get(name) is not None}


def _optional_object(value: JsonValue, where: str) -> dict[str, JsonValue] | None:
    return None if value is None else _object(value, where)


def _items(value: JsonValue, where: str) -> list[tuple[JsonValue, str]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise FixtureError(f"{where}: expected a list")
    return [(item, f"{where}[{i}]") for i, item in enumerate(value)]


def _str(holder: Mapping[str, JsonValue], name: str, where: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise FixtureError(f"{where}.{name}: expected text")
    return value


def _optional_str(holder: Mapping[str, JsonValue], name: str, where: str) -> str | None:
    value = holder.get(name)
    return value if value is None or isinstance(value, str) else _str(holder, name, where)
