"""Fixtures that can be seen to be sound in their bytes, without making a value of what they say.

Most files of a store are a whole request and plain answers, in the form in which this project writes them.
For such a file the rules T6 to T8 are told here in a fifth of the time, and T9 and T10 have nothing to say
(`docs/adr/0025-a-glance-at-a-fixture.md`). One pass in C finds the long texts and leaves them as they are
spelled, and so their bytes go into what is hashed.

A glance accepts and never refuses. What it cannot prove is looked at with care, and that alone
(:func:`.trust.judge_fixture`) finds words for what is wrong. So nothing more is trusted than without it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson

from cortex_replay import validation
from cortex_replay.canonical import struct_bytes
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex, is_digest
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.fixture_json import render_document
from cortex_replay.store.index.index import FixtureRow, ScopedRow
from cortex_replay.strict_json import may_be_as_written

__all__ = ["plain_key", "require_strict_reader"]

_find_other_escape: Final = re.compile(rb'\\[^"nrtbf]').search
"""Finds an escape that is no character's only spelling (``\\u0041``, ``\\/``), or may be half of a surrogate
pair; also a backslash, since what follows it is no escape."""
_QUOTE: Final = ord('"')
_Fragment: Final = orjson.Fragment

_Count = Annotated[int, msgspec.Meta(ge=0, le=validation.MAX_U32)]
_Limit = Annotated[int, msgspec.Meta(ge=0)]


class _Match(msgspec.Struct, gc=False):
    model: str
    prompt_hash: str


class _Message(msgspec.Struct, gc=False):
    role: Literal["user", "assistant", "tool", "system"]
    content: msgspec.Raw


class _Request(msgspec.Struct, gc=False):
    system: msgspec.Raw
    messages: list[_Message]
    temperature: float | None
    max_tokens: _Limit | None


class _Response(msgspec.Struct, gc=False):
    text: msgspec.Raw
    parsed_json: Any = None
    model: str | None = None
    usage: dict[str, _Count] | None = None
    finish_reason: str | None = None
    reasoning: str | None = None


class _Answer(msgspec.Struct, gc=False):
    response: _Response
    meta: dict[str, Any] | None = None


class _Document(msgspec.Struct, gc=False):
    request_match: _Match
    response: _Response
    request: _Request | None = None
    then: list[_Answer] | None = None
    meta: dict[str, Any] | None = None


_decode: Final = msgspec.json.Decoder(_Document).decode


def require_strict_reader(decode: Any) -> None:
    """Refuse a JSON reader that leaves a text as it is without looking at it.

    Raises:
        ImportError: ``decode`` takes a string with a control character in it.
    """
    for code in range(0x20):
        try:
            decode(b'"%c"' % code)
        except msgspec.DecodeError:
            continue
        raise ImportError("the installed msgspec takes control characters in JSON; install another version")


require_strict_reader(msgspec.json.Decoder(msgspec.Raw).decode)


def plain_key(row: FixtureRow | ScopedRow, data: bytes) -> FixtureKey | None:
    """The key of a file that keeps T6 to T10; ``None`` says nothing.

    Args:
        row: Its row.
        data: Its bytes, which are those of its row (T5).
    """
    if row.continues is not None or not may_be_as_written(data) or _find_other_escape(data):
        return None
    try:
        if not data.isascii():
            data.decode()
        found = _decode(data)
        match, request = found.request_match, found.request
        document: dict[str, Any] = {
            "request_match": {"model": match.model, "prompt_hash": match.prompt_hash},
        }
        if request is not None:
            document["request"] = _request(request)
        document["response"] = _response(found.response)
        if found.then is not None:
            document["then"] = [_answer(answer) for answer in found.then]
        if found.meta is not None:
            document["meta"] = found.meta
        # What is the same when it is written has no name twice, no number bent, and nothing unknown.
        if render_document(document) != data or (found.meta and "redactions" in found.meta):
            return None
        prompt_hash = match.prompt_hash
        if request is None:
            is_sound = is_digest(prompt_hash)
        else:
            is_sound = _prompt_hash(document["request"]) == prompt_hash
    except (ValueError, TypeError, RecursionError, InvalidRequest):  # those of both libraries are among them
        return None
    key = FixtureKey(match.model, prompt_hash)
    return key if is_sound and (row.prompt_hash is None or key == (row.model, row.prompt_hash)) else None


def _request(found: _Request) -> dict[str, Any]:
    messages = found.messages
    if messages and messages[0].role == "system":
        raise ValueError("a conversation does not start so")
    return {
        "system": _text(found.system),
        "messages": [{"role": message.role, "content": _text(message.content)} for message in messages],
        "temperature": found.temperature,
        "max_tokens": found.max_tokens,
    }


def _prompt_hash(request: dict[str, Any]) -> str:
    validation.temperature(request["temperature"], "temperature")
    return blake3_hex(struct_bytes(**request))


def _answer(found: _Answer) -> dict[str, Any]:
    document: dict[str, Any] = {"response": _response(found.response)}
    if found.meta is not None:
        document["meta"] = found.meta
    return document


def _response(found: _Response) -> dict[str, Any]:
    document: dict[str, Any] = {"text": _text(found.text)}
    if found.parsed_json is not None:
        document["parsed_json"] = found.parsed_json
    if found.model is not None:
        document["model"] = found.model
    if found.usage is not None:
        if "prompt_tokens" not in found.usage or "completion_tokens" not in found.usage:
            raise ValueError("a count is missing")
        document["usage"] = found.usage
    if found.finish_reason is not None:
        document["finish_reason"] = found.finish_reason
    if found.reasoning is not None:
        document["reasoning"] = found.reasoning
    return document


def _text(raw: msgspec.Raw) -> orjson.Fragment:
    """A text as it is spelled, to be written as it is."""
    spelled = bytes(raw)
    if spelled[0] != _QUOTE:
        raise ValueError("no text")
    return _Fragment(spelled)
