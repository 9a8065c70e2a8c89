"""What a store gives to those who look through all of it, and that damage is told and never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.mcp.questions import question_of
from cortex_replay.store import reader
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.requests.request_bytes import render_request
from tests.linked import MODEL, TEST, make_short, talk, write_whole
from tests.store.conversations import index_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Conversations that are stored once, with parts, and what a scope has of its own."""
    return make_short(write_whole(tmp_path / "whole"), tmp_path / "short")


def damage(root: Path, path: str) -> None:
    """Another byte, and the file is JSON still."""
    data = (root / path).read_bytes()
    (root / path).write_bytes(data.replace(b"Answer", b"Answes").replace(b"brief", b"grief"))
    assert (root / path).read_bytes() != data


def test_a_fixture_comes_with_its_bytes(root: Path) -> None:
    store = Store.open(root)
    for item in store.list():
        fixture, data = store.read(item.model, item.prompt_hash)
        assert fixture == store.get(item.model, item.prompt_hash)
        assert data == (root / item.path).read_bytes()


def test_few_are_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_PARSED", 2)
    store = Store.open(root, verify="on-read")
    expected = {fixture.key: fixture for fixture, scope in talk() if not scope}

    for _ in range(2):
        assert {key: store.get(*key) for key in expected} == expected
    assert len(store._fixtures) == 2


def test_a_part_is_trusted_or_refused(root: Path) -> None:
    parts = index_of(root).parts
    store = Store.open(root, verify="on-read")
    assert sorted(name for row in parts for name in store.part(row.blake3)) == ["system", "tools"]

    with pytest.raises(FixtureIntegrityFailed, match="is not listed"):
        store.part("0" * 64)
    row = next(row for row in parts if "system" in row.path)
    damage(root, row.path)
    with pytest.raises(FixtureIntegrityFailed):
        Store.open(root, verify="on-read").part(row.blake3)


def test_the_bytes_of_many_and_what_is_wrong_with_some(root: Path) -> None:
    store = Store.open(root, verify="on-read")
    items = store.list()
    assert {item.path: data for item, data in store.contents(items)} == {
        item.path: (root / item.path).read_bytes() for item in items
    }

    damage(root, items[0].path)
    (root / items[1].path).unlink()

    found: list[Any] = []
    left = {item.path for item, _ in store.contents(items, found)}
    assert left == {item.path for item in items[2:]}
    assert {finding.path for finding in found} == {item.path for item in items[:2]}
    with pytest.raises(FixtureIntegrityFailed):
        list(store.contents(items))


def test_every_request_is_found_whole_and_a_scope_has_its_own(root: Path) -> None:
    store = Store.open(root)
    shared = {fixture.key: fixture for fixture, scope in talk() if not scope}

    found = {FixtureKey(*key): data for key, data in store.scan_requests(first=MODEL)}
    assert found == {
        key: None if fixture.request is None else render_request(fixture.request.to_dict())
        for key, fixture in shared.items()
    }
    own = next(scope for _, scope in talk() if scope)
    mine, ours = dict(store.scan_model(MODEL, own)), dict(store.scan_model(MODEL))
    assert mine.keys() >= ours.keys() - {key for key in ours if key.model != MODEL}
    assert mine != ours


def test_the_bytes_that_a_row_vouches_for(root: Path) -> None:
    store = Store.open(root, verify="on-read")
    rows = index_of(root).rows
    assert all(store.listed_content(row) == (root / row.path).read_bytes() for row in rows)

    damage(root, rows[0].path)
    with pytest.raises(FixtureIntegrityFailed, match="is not the file"):
        store.listed_content(rows[0])
    (root / rows[1].path).unlink()
    with pytest.raises(FixtureIntegrityFailed):
        store.listed_content(rows[1])


@pytest.fixture
def calls(tmp_path: Path) -> Store:
    """Calls and failures, shared ones and those of a scope."""
    store = Store.create(tmp_path / "calls")
    fixture = Fixture.of(LlmRequest("m", messages="Hi", max_tokens=1), Answer("Hello."))
    failed: dict[str, Any] = {"protocol": "openai-chat", "status": 500, "headers": {}, "body": "{}"}
    for scope in ("", TEST):
        question = question_of("shop", "tools/call", {"name": "buy"})
        wire: dict[str, Any] = {"messages": [{"at_ms": 0, "result": {"content": [], "of": scope}}]}
        store.add_exchange(Exchange(wire, key=opaque_key(question), request=question), scope=scope)
        store.add(fixture, scope=scope)
        store.add_exchange(Exchange(failed, match=fixture.key, n=1), scope=scope)
    store.commit()
    return Store.open(store.root)


def test_calls_and_failures_of_scopes_are_listed_too(calls: Store) -> None:
    assert [row.path for row in calls.list_failures()] == sorted(row.path for row in calls.list_failures())
    assert {getattr(row, "scope", "") for row in calls.list_failures()} == {"", TEST}
    assert {stored.scope for stored in calls.list_exchanges()} == {"", TEST}
    [shared], [own] = ([*dict(calls.scan_exchanges(scope)).values()] for scope in ("", TEST))
    assert (TEST.encode() in shared, TEST.encode() in own) == (False, True)


def test_a_call_that_changed_on_disk_is_refused_by_every_way_to_it(calls: Store) -> None:
    stored = calls.list_exchanges()[0]
    assert calls.exchange_content(stored) == (calls.root / stored.path).read_bytes()
    other = Store.open(calls.root, verify="on-read")
    data = (calls.root / stored.path).read_bytes()

    (calls.root / stored.path).write_bytes(data.replace(b"shop", b"ship"))
    with pytest.raises(FixtureIntegrityFailed):
        other.exchange_content(stored)
    with pytest.raises(FixtureIntegrityFailed):
        other.exchange(stored.key, stored.scope)
    (calls.root / stored.path).unlink()
    with pytest.raises(FixtureIntegrityFailed):
        other.exchange_content(stored)
    with pytest.raises(FixtureIntegrityFailed):
        other.exchange(stored.key, stored.scope)


def test_a_call_that_another_commit_removed_is_none(calls: Store) -> None:
    stored = calls.list_exchanges()[0]
    other = Store.open(calls.root, verify="on-read")
    calls.remove_exchange(stored.key, stored.scope)
    calls.commit()

    assert other.exchange(stored.key, stored.scope) is None
