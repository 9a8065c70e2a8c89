"""The forms in which a fixture is written: with its whole request, or with what is new in it.

A request that continues a recorded one is written as what it adds, and of one that continues none, a large
system text and tools stand in parts (`docs/adr/0016-a-conversation-is-stored-once.md`). Only a file that can
be made again from its short form, to the byte, is shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, cast

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.fixture import Fixture, FixtureKey, RequestLink
from cortex_replay.store.fixture_json import PART_FIELDS, render_document, render_fixture
from cortex_replay.store.paths import PARTS_FOLDER
from cortex_replay.store.trust import MAX_PART_BYTES, Layout
from cortex_replay.types import LlmRequest

__all__ = ["Form", "is_start", "part_path", "shorten"]

_LARGE: Final = 2048
"""A field that is longer than this as compact JSON goes into a part."""


class Form(NamedTuple):
    """How a fixture is written."""

    data: bytes
    continues: str | None = None
    """The prompt hash of the request that its own continues."""
    parts: Mapping[str, bytes] = {}
    """The parts that it names, by field: the bytes of each."""


def shorten(fixture: Fixture, data: bytes, find: Callable[[FixtureKey], LlmRequest | None]) -> Form:
    """The shortest form of a fixture that can be turned back into these bytes.

    Args:
        fixture: With its whole request.
        data: Its bytes, in the form that holds the whole request.
        find: The request that is recorded under a key, if others can continue it.
    """
    request = fixture.request
    form = None if request is None else _continue(fixture, request, find) or _share_parts(fixture, request)
    return Form(data) if form is None or render_fixture(fixture) != data else form


def _continue(
    fixture: Fixture, request: LlmRequest, find: Callable[[FixtureKey], LlmRequest | None]
) -> Form | None:
    if not fixture.is_request_redacted:
        written = request.to_dict()
        for count, prompt_hash in request.prefix_hashes():
            start = find(FixtureKey(request.model, prompt_hash))
            if start is not None and is_start(start, written, count):
                link = RequestLink(prompt_hash, request.messages[count:])
                return Form(render_fixture(replace(fixture, request=None, link=link)), prompt_hash)
    return None


def is_start(start: LlmRequest, written: Mapping[str, JsonValue], count: int) -> bool:
    """Whether a request is written as the start of another. One key stands for any ids of tool calls."""
    messages = cast("list[JsonValue]", written["messages"])
    return orjson.dumps(start.to_dict()) == orjson.dumps({**written, "messages": messages[:count]})


def _share_parts(fixture: Fixture, request: LlmRequest) -> Form | None:
    written = request.to_dict()
    large = [name for name in written if name in PART_FIELDS and len(orjson.dumps(written[name])) > _LARGE]
    rendered = {name: render_document({name: written[name]}) for name in large}
    parts = {name: part for name, part in rendered.items() if len(part) <= MAX_PART_BYTES}
    if not parts:
        return None
    written = {name: value for name, value in written.items() if name not in parts}
    link = RequestLink(None, (), written, {name: blake3_hex(part) for name, part in parts.items()})
    return Form(render_fixture(replace(fixture, request=None, link=link)), None, parts)


def part_path(layout: Layout, name: str, digest: str) -> str:
    """Where a part goes: a plain name that carries its field and its content."""
    return f"{layout.folder}/{PARTS_FOLDER}/{name}-{digest[:16]}.json".removeprefix("/")
