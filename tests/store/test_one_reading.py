"""The bytes that are served are the bytes that were judged: a file is read once, and that buffer counts.

Who can change a file between two readings of it would have the first one judged and the second one served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cortex_replay import Answer, FixtureIntegrityFailed, LlmRequest, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import opaque_exchange
from cortex_replay.errors import Finding
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.index.named_file import File, NamedFile
from cortex_replay.store.reader import Verify
from tests.builder import ask, fixture_of

ANSWER, FAILURE, CALL = "the answer", "the failure", "the call"
QUESTION: dict[str, JsonValue] = {
    "upstream": "openai",
    "method": "GET",
    "path": "/v1/models",
    "query": [],
    "body": None,
}


class Swapped:
    """Files that say something else from the second reading on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.readings: dict[str, int] = {}
        one, many = DirectorySource.read, DirectorySource._read_here

        def read(source: DirectorySource, path: str, limit: int) -> bytes | Finding:
            return self._swap(path, one(source, path, limit))

        def read_here(
            source: DirectorySource, files: Iterable[File], limit: int
        ) -> Iterator[tuple[File, bytes | Finding]]:
            for file, data in many(source, files, limit):
                yield file, self._swap(file.path, data)

        patch.setattr(DirectorySource, "read", read)
        patch.setattr(DirectorySource, "_read_here", read_here)

    def _swap(self, path: str, data: bytes | Finding) -> bytes | Finding:
        if isinstance(data, Finding) or not path.endswith(".json"):
            return data
        self.readings[path] = self.readings.get(path, 0) + 1
        return data if self.readings[path] == 1 else data.replace(b"the ", b"not ")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One answer."""
    store = Store.create(tmp_path / "store")
    store.add(fixture_of(ask("q"), Answer(ANSWER)))
    store.commit()
    return store.root


@pytest.fixture
def exchanges(root: Path) -> Path:
    """A failure besides, and a call that is recorded as it is."""
    store = Store.open(root)
    store.add_exchange(Exchange.failure(store.key(ask("q")), 1, wire(500, FAILURE)))
    store.add_exchange(opaque_exchange(QUESTION, wire(200, CALL)))
    store.commit()
    return root


@pytest.fixture
def talk(exchanges: Path) -> Path:
    """A conversation besides, in short files."""
    store = Store.open(exchanges)
    for request in conversation():
        store.add(fixture_of(request, Answer(ANSWER)))
    store.commit()
    return exchanges


def wire(status: int, body: str) -> dict[str, JsonValue]:
    return {"status": status, "headers": {}, "body": body}


def conversation() -> list[LlmRequest]:
    said = [{"role": "user", "content": "the beginning " * 300}]
    further = [{"role": "assistant", "content": "well"}, {"role": "user", "content": "the end?"}]
    return [ask(said), ask([*said, *further])]


@pytest.mark.parametrize("verify", ["full", "on-read"])
def test_an_answer_is_served_as_it_was_judged(
    root: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = Swapped(monkeypatch)
    store = Store.open(root, verify=verify)

    assert store.get(*store.key(ask("q"))).answers[0].text == ANSWER
    assert set(swapped.readings.values()) == {1}


@pytest.mark.parametrize("verify", ["full", "on-read"])
def test_bytes_are_handed_out_as_they_were_judged(
    root: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    Swapped(monkeypatch)
    store = Store.open(root, verify=verify)

    assert ANSWER.encode() in store.content(*store.key(ask("q")))


def test_exchanges_are_served_as_they_were_judged(exchanges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = Swapped(monkeypatch)
    store = Store.open(exchanges, verify="on-read")
    [failure] = store.failures(*store.key(ask("q"))).values()
    [call] = store.list_exchanges()

    assert FAILURE in str(failure.wires)
    assert CALL in str((store.exchange(call.key) or failure).wires)
    assert set(swapped.readings.values()) == {1}


def test_bytes_of_exchanges_are_handed_out_as_they_were_judged(
    exchanges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(exchanges, verify="on-read")
    Swapped(monkeypatch)
    [stored] = store.list_exchanges()

    assert CALL.encode() in store.exchange_content(stored)


def test_a_store_that_was_read_in_full_asks_the_disk_no_more(talk: Path) -> None:
    """Neither for an answer nor for a failure, nor for what a short file continues."""
    before = [Store.open(talk).get(*one) for one in keys(Store.open(talk))]
    store = Store.open(talk)
    for path in (talk / "fixtures").rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"the ", b"not "))

    assert [store.get(*one) for one in keys(store)] == before
    [failure] = store.failures(*store.key(ask("q"))).values()
    assert FAILURE in str(failure.wires)


def keys(store: Store) -> list[FixtureKey]:
    return [store.key(request) for request in (ask("q"), *conversation())]


def test_what_is_read_again_is_judged_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So these tests can fail: the second reading is another one."""
    store = Store.open(root, verify="on-read")
    key = store.key(ask("q"))
    Swapped(monkeypatch)
    assert ANSWER.encode() in store.content(*key)

    with pytest.raises(FixtureIntegrityFailed, match="its bytes differ"):
        store.content(*key)


def test_what_is_looked_at_twice_is_kept_as_it_was_the_second_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short read is judged again, and then the second reading counts."""
    many = DirectorySource._read_here

    def cut(
        source: DirectorySource, files: Iterable[NamedFile], limit: int
    ) -> Iterator[tuple[NamedFile, bytes | Finding]]:
        for file, data in many(source, files, limit):
            yield file, data[:10] if isinstance(data, bytes) else data

    monkeypatch.setattr(DirectorySource, "_read_here", cut)
    store = Store.open(root)

    assert store.get(*store.key(ask("q"))).answers[0].text == ANSWER
    assert ANSWER.encode() in store.content(*store.key(ask("q")))
