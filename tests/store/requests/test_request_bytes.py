"""The bytes of requests, put together without parsing them: those of the whole file, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.requests.request_bytes import WholeRequests, render_request, request_bytes
from tests.linked import make_short, write_whole
from tests.store.conversations import index_of


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """The same recordings, each with its whole request and each with what is new."""
    whole = write_whole(tmp_path / "whole")
    return whole, make_short(whole, tmp_path / "short")


def files(root: Path) -> dict[FixtureKey, bytes]:
    rows = index_of(root).fixtures
    return {
        FixtureKey(row.model, row.prompt_hash): (root / row.path).read_bytes()
        for row in rows
        if row.model is not None and row.prompt_hash is not None
    }


def parts(root: Path) -> dict[str, bytes]:
    return {row.blake3: (root / row.path).read_bytes() for row in index_of(root).parts}


def test_a_short_request_has_the_bytes_of_the_whole_one(roots: tuple[Path, Path]) -> None:
    whole, short = map(files, roots)
    requests = WholeRequests(short.get, parts(roots[1]).get)

    assert {key: requests.bytes_of(*key, data) for key, data in short.items()} == {
        key: request_bytes(data) for key, data in whole.items()
    }
    assert sum(data != whole[key] for key, data in short.items()) > 5, "most are short there"


def test_each_file_that_others_continue_is_read_once(roots: tuple[Path, Path]) -> None:
    short = files(roots[1])
    read: list[FixtureKey] = []

    def find(key: FixtureKey) -> bytes | None:
        read.append(key)
        return short.get(key)

    requests = WholeRequests(find, parts(roots[1]).get)
    for key, data in short.items():
        requests.bytes_of(*key, data)

    assert len(read) == len(set(read))


def continuing(roots: tuple[Path, Path]) -> tuple[dict[FixtureKey, bytes], FixtureKey]:
    """All files, and one that continues another."""
    short = files(roots[1])
    key = next(key for key, data in short.items() if "continues" in (json.loads(data)["request"] or {}))
    return short, key


def parent_of(short: dict[FixtureKey, bytes], key: FixtureKey) -> FixtureKey:
    return FixtureKey(key.model, json.loads(short[key])["request"]["continues"])


BREAKS: dict[str, Callable[[dict[FixtureKey, bytes], FixtureKey], object]] = {
    "its parent is not there": lambda files, key: files.pop(parent_of(files, key)),
    "its parent has no request": lambda files, key: files.update({parent_of(files, key): b"{}"}),
    "its parent is no JSON": lambda files, key: files.update({parent_of(files, key): b'{"request"'}),
    "its parent has no messages": lambda files, key: files.update(
        {parent_of(files, key): b'{"request": {"system": "a"}}'}
    ),
    "its parent does not end": lambda files, key: files.update(
        {parent_of(files, key): b'\n  "request": {\n    "messages": [\n      1\n  },\n'}
    ),
    "they continue each other": lambda files, key: files.update(
        {
            parent_of(files, key): json.dumps(
                {"request": {"messages": [], "continues": key.prompt_hash}}
            ).encode()
        }
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_conversation_that_is_broken_gives_nothing(roots: tuple[Path, Path], what: str) -> None:
    short, key = continuing(roots)
    assert WholeRequests(short.get, parts(roots[1]).get).bytes_of(*key, short[key]) is not None

    BREAKS[what](short, key)

    assert WholeRequests(short.get, parts(roots[1]).get).bytes_of(*key, short[key]) is None


@pytest.mark.parametrize("part", [None, b"[]", b"{}", b"no JSON"])
def test_a_part_that_is_not_what_its_name_says_gives_nothing(
    roots: tuple[Path, Path], part: bytes | None
) -> None:
    short = files(roots[1])
    key = next(key for key, data in short.items() if b'"parts"' in data)

    assert WholeRequests(short.get, lambda _: part).bytes_of(*key, short[key]) is None


def test_a_file_in_another_layout_is_read_as_ours(roots: tuple[Path, Path]) -> None:
    whole, short = map(files, roots)
    flat = {key: orjson.dumps(orjson.loads(data)) for key, data in short.items()}
    requests = WholeRequests(flat.get, parts(roots[1]).get)

    assert {key: requests.bytes_of(*key, data) for key, data in flat.items()} == {
        key: request_bytes(data) for key, data in whole.items()
    }


@pytest.mark.parametrize(
    "data", [b"{}", b'{"request": null}', b'"request"', b'["request"]', b'{"request', b'\n  "request": {']
)
def test_a_file_without_a_request_has_none(data: bytes) -> None:
    assert request_bytes(data) is None


def test_a_request_without_messages_can_be_continued() -> None:
    empty: dict[str, Any] = {"system": "a", "messages": []}
    data = orjson.dumps({"request": {"continues": "0" * 64, "messages": [{"role": "user"}]}})

    found = WholeRequests(lambda _: orjson.dumps({"request": empty}), lambda _: None)

    assert found.bytes_of("m", "1" * 64, data) == render_request({**empty, "messages": [{"role": "user"}]})
