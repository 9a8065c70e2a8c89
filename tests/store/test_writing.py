"""Adding, replacing, removing and committing."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    FixtureConflict,
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmResponse,
    NoFixture,
    Store,
    StoreIo,
    TokenUsage,
)
from cortex_replay.canonical import JsonValue
from cortex_replay.store import state
from cortex_replay.store.changes import fixture_path
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import Index
from cortex_replay.store.journal import Journal, parse_journal
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.reindex import apply_reindex, plan_reindex
from cortex_replay.store.trust import Layout
from cortex_replay.store.writer import StoreWriter
from cortex_replay.types import StreamChunk, ToolCall
from tests.builder import MODEL, StoreBuilder, ask, fixture_of
from tests.golden import REPLAY_FIXTURES
from tests.sampling import IS_TORTURE


def fixture(question: str, *texts: str) -> Fixture:
    return fixture_of(ask(question), *(Answer(text) for text in texts))


def files(root: Path) -> set[str]:
    """Everything below the root but the writer's own state and what git is told."""
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".gitattributes" and ".cortex-replay" not in path.parts
    }


def texts(store: Store) -> list[str]:
    return sorted(answer.text for item in store.list() for answer in store.get(*item[:2]).answers)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_a_new_store_is_empty_and_sound(tmp_path: Path) -> None:
    """And is never made twice."""
    store = Store.create(tmp_path / "a/b")

    assert len(store) == 0
    assert store.layout == "nested"
    assert (store.root / "INDEX.toml").read_text() == render_index(Index())
    with pytest.raises(StoreIo, match="already"):
        Store.create(tmp_path / "a/b")


def test_nothing_is_seen_before_the_commit(store: Store) -> None:
    """Not by this store, not by another reader; then by both."""
    path = store.add(fixture("q", "a"))
    assert len(store) == len(Store.open(store.root)) == 0
    summary = store.commit()

    assert summary.added == [path]
    assert texts(store) == texts(Store.open(store.root)) == ["a"]
    assert files(store.root) == {"INDEX.toml", path}
    row = tomllib.loads((store.root / "INDEX.toml").read_text())["fixture"][0]
    assert (row["model"], row["prompt_hash"]) == store.key(ask("q"))
    assert path.endswith(f"{row['prompt_hash'][:16]}-{row['blake3'][:8]}.json")


def test_nothing_is_left_behind_by_a_commit(store: Store) -> None:
    """But lock and journal, which are never deleted."""
    store.add(fixture("q", "a"))
    store.commit()
    state = store.root / ".cortex-replay"

    assert {path.relative_to(state).as_posix() for path in state.rglob("*")} == {
        ".gitignore",
        "lock",
        "journal",
        "staging",
    }
    assert parse_journal((state / "journal").read_bytes()) == Journal(counter=2)


def test_the_same_answers_again_change_nothing(store: Store) -> None:
    """Whatever usage, ids, times and meta say; the file stays untouched."""
    call = ToolCall(id="a", name="f", arguments={"x": 1})
    first = fixture_of(
        ask("q"), Answer("t", usage=TokenUsage(1, 2), tool_calls=(call,), finish_reason="stop")
    )
    store.add(first)
    store.commit()
    before = {path: (store.root / path).stat().st_mtime_ns for path in files(store.root)}
    again = Answer(
        "t",
        usage=TokenUsage(7, 8),
        tool_calls=(ToolCall(id="other", name="f", arguments={"x": 1}),),
        finish_reason="stop",
    )
    store.add(fixture_of(ask("q"), again, meta={"recorded_at": "later"}))
    summary = store.commit()

    assert summary.added == summary.removed == []
    assert before == {path: (store.root / path).stat().st_mtime_ns for path in files(store.root)}


@pytest.mark.parametrize(
    "other",
    [
        Answer("other"),
        Answer("t", finish_reason="length"),
        Answer("t", parsed_json=[1]),
        Answer("t", tool_calls=(ToolCall(name="f", arguments={}),)),
    ],
)
def test_other_answers_under_a_taken_key_are_a_conflict(store: Store, other: Answer) -> None:
    """Never the last writer's; nothing is changed, and replacing is the way to say it."""
    store.add(fixture("q", "t"))
    store.commit()
    before = files(store.root)
    store.add(fixture_of(ask("q"), other))
    store.add(fixture("also", "lost?"))
    with pytest.raises(FixtureConflict) as caught:
        store.commit()
    assert (caught.value.model, caught.value.prompt_hash) == store.key(ask("q"))
    assert files(store.root) == before
    assert texts(Store.open(store.root)) == ["t"]
    store.discard()

    path = store.replace(fixture_of(ask("q"), other))
    summary = store.commit()
    assert summary.added == [path]
    assert len(summary.removed) == 1
    assert store.get(*store.key(ask("q"))).answers == (other,)
    assert files(store.root) == {"INDEX.toml", path}
    assert Store.open(store.root).get(*store.key(ask("q"))).answers == (other,)


def test_several_answers_are_compared_one_by_one(store: Store) -> None:
    """The first ones again change nothing, one more is added, and another one is a conflict."""
    store.add(fixture("q", "a", "b"))
    store.commit()
    for known in (("a", "b"), ("a",)):
        store.add(fixture("q", *known))
        assert store.commit().added == []
    store.add(fixture("q", "a", "b", "c"))
    assert len(store.commit().added) == 1
    assert [answer.text for answer in store.get(*store.key(ask("q"))).answers] == ["a", "b", "c"]
    store.add(fixture("q", "a", "x"))
    with pytest.raises(FixtureConflict):
        store.commit()
    store.discard()
    store.replace(fixture("q", "a"))
    assert len(store.commit().added) == 1


FAILURE: dict[str, JsonValue] = {
    "status": 429,
    "headers": {"content-type": "application/json"},
    "body": '{"error": {"message": "later", "type": "rate_limit_error"}}',
}


def test_a_failure_is_an_answer_too(store: Store) -> None:
    """It has a row of its own, goes when its key goes, and survives a run that died."""
    key = store.key(ask("q"))
    failure = Exchange.failure(key, 1, FAILURE)
    store.add(fixture("q", "a"))
    path = store.add_exchange(failure)
    store.commit()
    assert path.startswith("fixtures/exchanges/")
    assert store.failures(*key) == {1: failure}
    again = Store.open(store.root, verify="on-read")
    assert again.failures(*key) == {1: failure}

    again.add_exchange(Exchange.failure(key, 1, FAILURE | {"headers": {"date": "another"}}))
    assert again.commit().added == []
    again.add_exchange(Exchange.failure(key, 1, FAILURE | {"status": 500}))
    with pytest.raises(FixtureConflict):
        again.commit()
    again.discard()
    again.add_exchange(Exchange.failure(key, 1, FAILURE | {"status": 500}), overwrite=True)
    assert len(again.commit().removed) == 1

    again.remove(*key)
    again.commit()
    assert files(store.root) == {"INDEX.toml"}


def test_a_staged_failure_outlives_its_process(store: Store) -> None:
    key = store.key(ask("q"))
    store.add_exchange(Exchange.failure(key, 2, FAILURE))
    store.abandon()

    heir = Store.open(store.root)
    assert heir.abandoned().answers == 1
    heir.adopt_abandoned()
    heir.commit()

    assert list(heir.failures(*key)) == [2]


def test_changes_of_one_commit_are_made_in_order(store: Store) -> None:
    """Add, replace, remove, add again: the last word counts, and the set is whole."""
    store.add(fixture("q", "1"))
    store.replace(fixture("q", "2"))
    store.add(fixture("p", "x"))
    store.commit()
    assert texts(store) == ["2", "x"]
    store.remove(*store.key(ask("p")))
    store.remove(*store.key(ask("q")))
    store.add(fixture("q", "3"))
    store.commit()

    assert texts(Store.open(store.root)) == ["3"]
    with pytest.raises(NoFixture):
        store.remove(*store.key(ask("p")))


@pytest.mark.parametrize(
    ("steps", "left"), [("ra", ["2"]), ("ar", []), ("aar", []), ("rar", []), ("ara", ["2"]), ("arra", ["2"])]
)
def test_what_is_removed_is_what_was_there_by_then(store: Store, steps: str, left: list[str]) -> None:
    """Removals and additions of one commit, in any order: neither overtakes the other."""
    key = store.key(ask("q"))
    store.add(fixture("q", "1"))
    store.commit()
    for step in steps:
        if step == "a":
            store.replace(fixture("q", "2"))
        else:
            store.remove(*key)
    store.commit()

    assert texts(Store.open(store.root)) == left


def test_replacing_back_and_forth(store: Store) -> None:
    """A file that was dropped and comes back has its old name and its old bytes."""
    names = []
    for text in "abab":
        store.replace(fixture("q", text))
        store.commit()
        names.append(store.list()[0].path)

    assert names[0] == names[2] != names[1] == names[3]
    assert len(files(store.root)) == 2


def test_what_would_not_be_trusted_is_not_written(store: Store) -> None:
    """A stream that does not add up, or a request of another key."""
    torn = Answer("ab", stream=(TimedChunk(0, StreamChunk("a", "stop")),))
    for bad in (fixture_of(ask("q"), torn), Fixture(FixtureKey(MODEL, "0" * 64), (Answer("a"),), ask("q"))):
        with pytest.raises(FixtureIntegrityFailed):
            store.add(bad)
    assert store.commit().added == []


def test_a_commit_builds_on_what_others_committed(store: Store) -> None:
    """Two stores open at once; neither forgets the other's answers."""
    other = Store.open(store.root)
    store.add(fixture("one", "1"))
    other.add(fixture("two", "2"))
    store.commit()
    other.commit()

    assert texts(other) == texts(Store.open(store.root)) == ["1", "2"]
    assert texts(store) == ["1"]  # what it read is what it gives, until it commits again


def test_on_read_follows_a_replacement(store: Store) -> None:
    """A listed file that is gone was replaced or removed: the index is read again."""
    store.add(fixture("one", "1"))
    store.add(fixture("two", "2"))
    store.commit()
    reader = Store.open(store.root, verify="on-read")
    store.replace(fixture("one", "uno"))
    store.remove(*store.key(ask("two")))
    store.commit()

    assert reader.get(*store.key(ask("one"))).answers[0].text == "uno"
    with pytest.raises(NoFixture):
        reader.get(*store.key(ask("two")))
    (store.root / reader.list()[0].path).unlink()
    with pytest.raises(FixtureIntegrityFailed, match="listed but not there"):
        Store.open(store.root, verify="on-read")


def test_a_damaged_store_is_not_written_to(store: Store) -> None:
    """The index was spoiled after opening."""
    store.add(fixture("q", "a"))
    (store.root / "INDEX.toml").write_text("[table]\n")
    with pytest.raises(FixtureIntegrityFailed):
        store.commit()
    assert (store.root / "INDEX.toml").read_text() == "[table]\n"


def test_a_flat_store_stays_flat_and_gets_keys(tmp_path: Path) -> None:
    """One signed by crtx-llm: its files stay, new ones go to the top."""
    root = tmp_path / "flat"
    root.mkdir()
    for file in REPLAY_FIXTURES.iterdir():
        (root / file.name).write_bytes(file.read_bytes())
    store = Store.open(root)
    path = store.add(fixture("q", "a"))
    store.commit()
    again = Store.open(root, verify="on-read")

    assert "/" not in path
    assert again.layout == "flat"
    assert len(again) == 14
    assert again.get(*store.key(ask("q"))).answers[0].text == "a"


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("claude-sonnet-4", "claude-sonnet-4"),
        ("Qwen/QwQ 32B", "qwen-qwq-32b"),
        ("../../etc", "etc"),
        ("...", "model"),
        ("", "model"),
        ("漢字", "model"),
        ("CON", "con-model"),
        ("nul.txt", "nul-model"),
        ("weights.JSON", "weights-json"),
        ("x" * 200, "x" * 64),
        ("a\x00\n/b", "a-b"),
    ],
)
def test_names_are_plain_whatever_the_model_is_called(model: str, folder: str) -> None:
    """Plain ASCII, lower case, no device, no way out."""
    path = fixture_path(Layout.NESTED, FixtureKey(model, "0" * 64), "1" * 64)

    assert path == f"fixtures/{folder}/{'0' * 16}-{'1' * 8}.json"


def test_what_a_run_that_died_abandoned(store: Store) -> None:
    """Is kept, reported, and staged again when asked."""

    def record() -> None:
        doomed = Store.open(store.root)
        doomed.add(fixture("one", "1"))
        doomed.add(fixture("two", "2"))
        os._exit(1)

    process = multiprocessing.get_context("fork").Process(target=record)
    process.start()
    process.join(30)
    assert len(Store.open(store.root)) == 0
    assert (store.abandoned().sessions, store.abandoned().answers) == (1, 2)

    living = Store.open(store.root)
    living.add(fixture("three", "3"))
    assert store.abandoned().answers == 2  # what lives is not left over
    assert store.adopt_abandoned() == 2
    assert store.abandoned().answers == 0
    store.commit()
    assert texts(store) == ["1", "2"]
    living.commit()
    assert texts(Store.open(store.root)) == ["1", "2", "3"]


def test_what_was_committed_since_stays_when_an_older_answer_is_adopted(store: Store) -> None:
    """Somebody has seen the one, and nobody the other."""
    doomed = Store.open(store.root)
    doomed.add(fixture("q", "older"))
    doomed.add(fixture("p", "alone"))
    doomed.abandon()
    store.add(fixture("q", "newer"))
    store.commit()

    heir = Store.open(store.root)
    assert heir.adopt_abandoned() == 2
    assert heir.commit().dropped == 1

    assert texts(Store.open(store.root)) == ["alone", "newer"]


def test_an_answer_that_somebody_changed_in_staging_is_not_adopted(store: Store) -> None:
    """Its name carries a mark of what it said."""
    store.add(fixture("q", "ours"))
    store.abandon()
    [staged] = store.root.glob(".cortex-replay/staging/*/*.add")
    staged.write_bytes(render_fixture(fixture("p", "theirs")))

    assert Store.open(store.root).adopt_abandoned() == 0


def test_an_index_is_not_put_over_what_was_committed_since(store: Store) -> None:
    """What ``index`` planned is not what there is."""
    source = DirectorySource(store.root)
    (store.root / "fixtures/new.json").write_bytes(render_fixture(fixture("new", "n")))
    plan = plan_reindex(source)
    (store.root / "fixtures/new.json").unlink()
    store.add(fixture("q", "a"))
    store.commit()

    with pytest.raises(StoreIo, match="changed in the meantime"):
        apply_reindex(source, plan)

    assert texts(Store.open(store.root)) == ["a"]


def test_abandoning_a_commit_that_could_not_be_taken_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next commit undoes it, of whichever store, and keeps its answers."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    store.add(fixture("one", "1"))
    with monkeypatch.context() as patch:
        patch.setattr(LockedStore, "put_index", refuse)
        patch.setattr(LockedStore, "take_back", refuse)
        with pytest.raises(StoreIo):
            store.commit()

    store.abandon()
    store.add(fixture("two", "2"))
    store.commit()

    assert texts(Store.open(store.root)) == ["2"]
    assert store.adopt_abandoned() == 1
    store.commit()
    assert texts(Store.open(store.root)) == ["1", "2"]


def test_two_that_begin_to_write_at_once_have_one_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made with the first change; what one thread stages must not be lost to another's."""
    met: list[StoreWriter] = []

    class Slow(StoreWriter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if not met:
                met.append(self)
                met.append(store._writer)  # somebody else, meanwhile

    monkeypatch.setattr("cortex_replay.store.writer.StoreWriter", Slow)

    first = store._writer

    assert store._writer is first
    assert met[1] is first


def test_discarding(store: Store) -> None:
    """Leaves nothing."""
    store.add(fixture("q", "a"))
    store.discard()

    assert store.commit().added == []
    assert list((store.root / ".cortex-replay/staging").iterdir()) == []


def test_on_windows_recording_refuses_clearly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading works, and the message says so."""
    monkeypatch.setattr(state, "fcntl", None)
    with pytest.raises(StoreIo, match="on Windows a store can be read and verified"):
        store.add(fixture("q", "a"))


def _record_many(root: Path, worker: int, start: threading.Barrier) -> None:
    start.wait(60)
    store = Store.open(root)
    for i in range(20):
        # Half of the keys are everybody's, with the same answer; half are this worker's own.
        question = f"shared {i}" if i % 2 else f"own {worker} {i}"
        store.add(fixture(question, f"answer to {question}"))
    store.commit()


def test_processes_writing_at_once_lose_nothing(store: Store) -> None:
    """20 fixtures each, half of them with overlapping keys."""
    count = 64 if IS_TORTURE else 12
    context = multiprocessing.get_context("fork")
    start = context.Barrier(count)
    workers = [context.Process(target=_record_many, args=(store.root, i, start)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)

    assert [worker.exitcode for worker in workers] == [0] * count
    assert len(Store.open(store.root)) == count * 10 + 10


def test_readers_during_writes_see_one_set_or_the_other(store: Store) -> None:
    """No false finding in a loop of both, in either way of opening."""
    for i in range(20):
        store.add(fixture(f"stable {i}", "x"))
    store.commit()
    context = multiprocessing.get_context("fork")
    stop = context.Event()

    def write() -> None:
        mine = Store.open(store.root)
        i = 0
        while not stop.is_set():
            mine.replace(fixture("changing", f"{i}"))
            mine.replace(fixture("changing too", f"{i}"))
            mine.commit()
            i += 1

    writers = [context.Process(target=write) for _ in range(2)]
    for process in writers:
        process.start()
    try:
        seen: set[str] = set()
        for i in itertools.count():
            if i >= 150 and len(seen) > 1:  # on a busy machine the writers start late
                break
            reader = Store.open(store.root, verify="full" if i % 2 else "on-read")
            assert len(reader) in (20, 22)
            if len(reader) == 22 and i % 2:
                pair = [reader.get(*store.key(ask(q))).answers[0].text for q in ("changing", "changing too")]
                assert pair[0] == pair[1]
                seen.add(pair[0])
    finally:
        stop.set()
        for process in writers:
            process.join(30)

    assert StoreBuilder(store.root).findings() == []


def test_a_fixture_is_made_of_a_request_and_its_answers(store: Store) -> None:
    """A text, an answer, or what an adapter gave; nonsense is refused when it is made."""
    request = ask("q")
    response = LlmResponse("three", None, "other", TokenUsage(1, 2), "0" * 64, "stop")
    made = Fixture.of(request, "one", Answer("two"), response, meta={"adapter": "test"})
    store.add(made)
    store.commit()

    assert store.get(*store.key(request)) == made
    assert [answer.text for answer in made.answers] == ["one", "two", "three"]
    assert made.answers[2].model == "other"
    for bad in ((), ("text",)):
        with pytest.raises(InvalidRequest, match="answers"):
            Fixture(made.key, bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="model"):
        Fixture(FixtureKey("another", made.key.prompt_hash), made.answers, request)


def test_an_index_that_no_reader_would_take_is_not_written(store: Store) -> None:
    """Two names of 17 MB each: refused before anything moves."""
    for letter in "ab":
        store.add(Fixture.of(ask("q", model=letter * 17_000_000), "x"))
    with pytest.raises(StoreIo, match="no reader takes; with shards, each of them may be so large"):
        store.commit()

    assert files(store.root) == {"INDEX.toml"}
    assert len(Store.open(store.root)) == 0


def test_a_commit_builds_on_no_row_that_breaks_the_rules(builder: StoreBuilder) -> None:
    """Somebody changed the index since this store was opened."""
    store = builder.open()
    store.add(fixture("new", "n"))
    changed = builder.index_text().replace(builder.fixtures[0].path, "fixtures/../../outside.json")
    builder.write_index(changed)

    with pytest.raises(FixtureIntegrityFailed, match=r"this path has the component '\.\.'"):
        store.commit()

    assert builder.index_text() == changed
