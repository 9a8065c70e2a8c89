"""Answers belong to scopes: who gets what, which files there are, and what stays when one records again."""

from __future__ import annotations

import shutil
import threading
import tomllib
from pathlib import Path

import orjson
import pytest

from cortex_replay import FixtureConflict, NoFixture, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, parse_exchange
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.index.grid import render_index, slot_of
from cortex_replay.store.index.index import FixtureRow, Index, ScopedRow, parse_index
from cortex_replay.store.trust import Layout, trust_rows
from tests.builder import ask, fixture_of
from tests.golden import REPLAY_FIXTURES

A, B, C = "tests/test_a.py::test_a", "tests/test_b.py::test_b", "gateway scope"
KEY = fixture_of(ask("q"), Answer("")).key


def fixture(*texts: str, scope: str = "", question: str = "q") -> Fixture:
    answers = [Answer(text) for text in texts]
    return fixture_of(ask(question), *answers, meta={"scope": scope} if scope else None)


def failure(n: int, status: int = 500, scope: str = "") -> Exchange:
    made = Exchange.failure(KEY, n, {"status": status, "headers": {}, "body": ""})
    return Exchange(made.wire, made.match, made.n, meta={"scope": scope} if scope else None)


def opaque(*bodies: str, scope: str = "") -> Exchange:
    request: dict[str, JsonValue] = {"upstream": "openai", "method": "GET", "path": "/v1/runs/1", "query": []}
    wires: list[JsonValue] = [{"status": 200, "headers": {}, "body": body} for body in bodies]
    document = {"request": request | {"body": None}, "wire": wires[0]}
    document |= {"then": [{"wire": wire} for wire in wires[1:]], "meta": {"scope": scope} if scope else None}
    return parse_exchange(orjson.dumps(document))


def files(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "fixtures").rglob("*.json"))


def texts(store: Store, scope: str = "") -> list[str]:
    """What the calls of a scope get, of a store that must be sound; read anew by each kind of reader."""
    assert check_store(DirectorySource(store.root)).findings == []
    said = []
    for reader in (store, Store.open(store.root), Store.open(store.root, verify="on-read")):
        try:
            said.append([answer.text for answer in reader.get(*KEY, scope).answers])
        except NoFixture:
            said.append([])
    assert said[0] == said[1] == said[2]
    return said[0]


def record(store: Store, scope: str, *answers: str, again: bool = False) -> None:
    made = fixture(*answers, scope=scope)
    if again:
        store.replace(made, scope=scope)
    else:
        store.add(made, scope=scope, keep_existing=True)
    store.commit()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


class TestRecording:
    def test_the_first_scope_that_records_shares_its_answer(self, store: Store) -> None:
        """With everybody who has none of its own."""
        record(store, A, "one")

        assert [texts(store, scope) for scope in (A, B, "")] == [["one"]] * 3
        assert parse_index((store.root / "INDEX.toml").read_text()).scoped == []

    def test_another_answer_of_another_scope_is_its_own(self, store: Store) -> None:
        record(store, A, "one")
        record(store, B, "two")

        assert (texts(store, A), texts(store, B), texts(store, C)) == (["one"], ["two"], ["one"])
        assert store.scopes == {B}
        assert len(files(store)) == 2

    def test_an_equal_answer_is_stored_once(self, store: Store) -> None:
        """However many scopes record it, shared or not; and each has a row that says so."""
        record(store, A, "one")
        record(store, B, "one")
        record(store, C, "two")
        record(store, "another", "two")

        assert [texts(store, scope)[0] for scope in (A, B, C, "another")] == ["one", "one", "two", "two"]
        assert len(files(store)) == 2
        assert store.scopes == {B, C, "another"}

    def test_to_record_again_changes_nobody_elses_answer(self, store: Store) -> None:
        """Neither of who has its own, nor of who was given the one that is gone."""
        record(store, A, "one")
        record(store, B, "one")
        record(store, C, "three")
        record(store, A, "new", again=True)

        assert [texts(store, scope) for scope in (A, B, C)] == [["new"], ["one"], ["three"]]
        assert texts(store) == ["new"]
        assert len(files(store)) == 3

        record(store, B, "newer", again=True)

        assert [texts(store, scope) for scope in (A, B, C)] == [["new"], ["newer"], ["three"]]
        assert len(files(store)) == 3, "the file that nobody names any more is gone"

    def test_a_file_stays_for_as_long_as_a_row_names_it(self, store: Store) -> None:
        """And a commit says which files went."""
        record(store, A, "one")
        record(store, B, "one")
        (name,) = files(store)
        for scope, count in ((A, 0), (B, 1)):
            store.replace(fixture(f"new of {scope}", scope=scope), scope=scope)
            gone = store.commit().removed

            assert [path.rpartition("/")[2] for path in gone] == [name] * count

    def test_what_calls_without_a_scope_record_leaves_the_owner_its_answer(self, store: Store) -> None:
        record(store, A, "one")
        record(store, "", "new", again=True)

        assert (texts(store, A), texts(store, B), texts(store)) == (["one"], ["new"], ["new"])

        store.replace(fixture("newest"))
        store.commit()

        assert (texts(store, A), texts(store)) == (["one"], ["newest"])

    def test_an_answer_that_is_asked_again_for_its_owner_stays_the_owners(self, store: Store) -> None:
        """As a refresh does it, which knows of no scope and keeps what the recording says of itself."""
        record(store, A, "one")
        store.replace(fixture("new", scope=A))
        store.commit()

        assert texts(store, A) == texts(store) == ["new"]
        assert store.scopes == frozenset()

    def test_a_scope_that_says_the_same_again_needs_no_file(self, store: Store) -> None:
        record(store, A, "one")
        record(store, B, "two")
        record(store, B, "one", again=True)

        assert texts(store, B) == ["one"]
        assert len(files(store)) == 1

    def test_fewer_answers_are_another_sequence(self, store: Store) -> None:
        """One that answers every call is not the first of several."""
        record(store, A, "one", "two")
        record(store, B, "one")

        assert (texts(store, A), texts(store, B)) == (["one", "two"], ["one"])

    def test_more_answers_of_one_scope_take_the_place_of_its_fewer(self, store: Store) -> None:
        for scope in (A, B):
            record(store, scope, "one" if scope == A else "two")
            record(store, scope, "one" if scope == A else "two", "more")

        assert (texts(store, A), texts(store, B)) == (["one", "more"], ["two", "more"])

    def test_a_conflict_is_one_with_what_the_scope_has(self, store: Store) -> None:
        record(store, A, "one")
        store.add(fixture("two", scope=B), scope=B)
        store.commit()
        store.add(fixture("three", scope=B), scope=B)
        with pytest.raises(FixtureConflict):
            store.commit()
        store.discard()
        record(store, B, "three")

        assert texts(store, B) == ["two"]

    def test_ids_count_where_others_recorded(self, store: Store) -> None:
        """A cassette's test may look at them."""
        for scope, model in ((A, "m-1"), (B, "m-2")):
            made = fixture_of(ask("q"), Answer("same", model=model), meta={"scope": scope})
            store.add(made, scope=scope, is_exact=True)
        store.commit()

        assert [store.get(*KEY, scope).answers[0].model for scope in (A, B)] == ["m-1", "m-2"]


class TestPins:
    def test_what_a_scope_was_given_stays_its_own(self, store: Store) -> None:
        record(store, A, "one")
        store.pin(B, *KEY)
        store.commit()
        record(store, A, "new", again=True)

        assert (texts(store, A), texts(store, B), texts(store, C)) == (["new"], ["one"], ["new"])

    def test_a_pin_copies_nothing_and_none_is_needed_by_the_owner(self, store: Store) -> None:
        record(store, A, "one")
        before = files(store)
        for scope in (A, B):
            store.pin(scope, *KEY)
        store.commit()

        assert files(store) == before
        assert store.scopes == {B}

    def test_a_pin_of_what_is_gone_meanwhile_is_none(self, store: Store) -> None:
        record(store, A, "one")
        other = Store.open(store.root)
        other.pin(B, *KEY)
        record(store, A, "new", again=True)
        other.commit()

        assert texts(other, B) == ["new"]

    def test_a_pin_survives_the_process_that_made_it(self, store: Store) -> None:
        """As every test of a run does, whose answers are taken over at its end."""
        record(store, A, "one")
        branch = store.branch()
        branch.pin(B, *KEY)
        branch.abandon()

        assert store.abandoned().answers == 0
        assert store.adopt_abandoned() == 0
        store.commit()
        assert store.scopes == {B}

    def test_a_pin_holds_the_failures_too(self, store: Store) -> None:
        record(store, A, "one", "two")
        store.add_exchange(failure(1, scope=A), scope=A)
        store.commit()
        store.pin(B, *KEY)
        store.commit()
        store.remove_failure(*KEY, 1, A)
        store.commit()

        assert list(store.failures(*KEY, B)) == [1]
        assert not store.has_failures(*KEY, A)
        assert not store.has_failures(*KEY)
        assert texts(store, B) == ["one", "two"]


class TestSequences:
    def test_failures_belong_to_their_scope(self, store: Store) -> None:
        record(store, A, "one")
        store.add(fixture("one", scope=B), scope=B)
        store.add_exchange(failure(1, scope=B), scope=B)
        store.commit()

        assert not store.has_failures(*KEY, A)
        assert store.sole_fixture(KEY, A) is not None
        assert store.sole_fixture(KEY, B) is None
        assert list(store.failures(*KEY, B)) == [1]
        assert texts(store, B) == ["one"]

    def test_a_scope_whose_calls_all_failed_gets_no_answer_of_others(self, store: Store) -> None:
        record(store, A, "one")
        store.add_exchange(failure(1, scope=B), scope=B)
        store.commit()

        assert texts(store, B) == []
        assert store.rows(*KEY, B)
        assert not store.has_fixture(*KEY, B)
        with pytest.raises(NoFixture):
            store.get(*KEY, B)

    def test_an_exchange_is_a_sequence_of_a_scope(self, store: Store) -> None:
        store.add_exchange(opaque("queued", "done", scope=A), scope=A)
        store.add_exchange(opaque("done", scope=B), scope=B)
        store.commit()
        key = opaque("").key or ""
        for reader in (store, Store.open(store.root), Store.open(store.root, verify="on-read")):
            found = {scope: reader.exchange(key, scope) for scope in (A, B, "")}

            assert [wire["body"] for wire in found[A].wires] == ["queued", "done"]  # type: ignore[union-attr]
            assert [wire["body"] for wire in found[B].wires] == ["done"]  # type: ignore[union-attr]
            assert found[""] == found[A]

    def test_what_another_process_staged_is_its_scopes(self, store: Store) -> None:
        """Who recorded it, it says itself; a removal comes along with what took the place."""
        record(store, A, "one")
        branch = store.branch()
        branch.add(fixture("two", scope=B), scope=B)
        branch.add_exchange(failure(2, scope=B), scope=B)
        branch.add_exchange(opaque("x", scope=B), scope=B)
        branch.abandon()

        assert store.adopt_abandoned() == 3
        store.commit()
        assert (texts(store, A), texts(store, B)) == (["one"], ["two"])
        again = store.branch()
        again.remove_failure(*KEY, 2, B)
        again.replace(fixture("two", "three", scope=B), scope=B)
        again.abandon()
        store.adopt_abandoned()
        store.commit()

        assert texts(store, B) == ["two", "three"]
        assert not store.has_failures(*KEY, B)

    def test_a_removal_takes_what_it_names(self, store: Store) -> None:
        record(store, A, "one")
        record(store, B, "two")
        store.remove(*KEY)
        store.commit()

        assert (texts(store, A), texts(store, B)) == ([], ["two"])
        store.remove(*KEY, B)
        store.commit()
        assert files(store) == []
        with pytest.raises(NoFixture):
            store.remove(*KEY, B)


def test_an_owner_that_comes_to_say_what_another_does_shares_its_file(store: Store) -> None:
    record(store, A, "at first")
    record(store, B, "the same")
    record(store, A, "the same", again=True)

    assert (texts(store), texts(store, A), texts(store, B)) == (["the same"],) * 3
    assert len(files(store)) == 1


def test_many_writers_each_for_a_scope(store: Store) -> None:
    """All answer one question, some alike; none loses its own, and no file is there twice."""
    scopes = {f"test {i}": f"answer {i % 3}" for i in range(8)}

    def write(scope: str) -> None:
        own = Store.open(store.root)
        for again in (False, True):
            text = scopes[scope] if again else f"{scopes[scope]} at first"
            made = fixture(text, scope=scope)
            own.replace(made, scope=scope)
            own.commit()

    threads = [threading.Thread(target=write, args=(scope,)) for scope in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = Store.open(store.root)

    assert {scope: texts(store, scope)[0] for scope in scopes} == scopes
    assert len(files(store)) == 3


class TestIndex:
    ROW = ScopedRow("fixtures/m/a.json", "a" * 64, "m", "b" * 64, scope=A)
    SHARED = FixtureRow("fixtures/m/a.json", "a" * 64, "m", "b" * 64)

    def test_a_file_may_have_a_row_in_every_scope(self) -> None:
        rows = [self.ROW._replace(scope=scope) for scope in (A, B)]

        assert trust_rows(Index([self.SHARED], scoped=rows), Layout.NESTED) == []

    @pytest.mark.parametrize(
        ("row", "code"),
        [
            (ROW._replace(blake3="c" * 64), "path-duplicate"),
            (ROW._replace(prompt_hash="c" * 64), "path-duplicate"),
            (ROW._replace(path="fixtures/M/a.json"), "path-duplicate"),
            (ROW._replace(n="1"), "path-duplicate"),
            (ROW._replace(path="../a.json"), "path-unsafe"),
            (ROW._replace(path="fixtures/b.json", prompt_hash=None), "key-spelling"),
            (ROW._replace(path="fixtures/b.json", scope=""), "key-spelling"),
            (ROW._replace(path="fixtures/b.json", scope="a\x1b[2J"), "key-spelling"),
            (ROW._replace(path="fixtures/b.json", scope="a" * 513), "key-spelling"),
            (ROW._replace(path="fixtures/b.json", key="d" * 64), "key-spelling"),
            (ROW._replace(path="fixtures/b.json", blake3="x"), "hash-spelling"),
        ],
    )
    def test_what_a_row_must_not_say(self, row: ScopedRow, code: str) -> None:
        found = trust_rows(Index([self.SHARED], scoped=[row]), Layout.NESTED)

        assert [finding.code for finding in found][:1] == [code]

    def test_one_scope_has_one_answer(self) -> None:
        twice = self.ROW._replace(path="fixtures/m/b.json")

        assert [f.code for f in trust_rows(Index(scoped=[self.ROW, twice]), Layout.NESTED)] == [
            "key-duplicate"
        ]

    def test_rows_of_scopes_stand_apart(self) -> None:
        """So that branches that record different tests merge; and a text says one thing in one way."""
        rows = [self.ROW._replace(scope=f"test {i}") for i in range(20)]

        assert len({slot_of(self.SHARED), *map(slot_of, rows)}) == 21
        text = render_index(Index([self.SHARED], scoped=rows))
        assert text == render_index(Index([self.SHARED], scoped=rows[::-1]))
        assert sorted(parse_index(text).scoped) == sorted(rows)
        assert [row["scope"] for row in tomllib.loads(text)["scoped"]]

    def test_a_file_that_only_a_scope_names_is_checked(self, store: Store) -> None:
        record(store, A, "one")
        record(store, B, "two")
        (path,) = [path for path in (store.root / "fixtures").rglob("*.json") if b"two" in path.read_bytes()]
        path.write_bytes(path.read_bytes().replace(b"two", b"2.."))

        with pytest.raises(FixtureIntegrityFailed, match="differ"):
            Store.open(store.root)
        reader = Store.open(store.root, verify="on-read")
        assert reader.get(*KEY, A).answers[0].text == "one"
        with pytest.raises(FixtureIntegrityFailed, match="differ"):
            reader.get(*KEY, B)

    def test_a_row_cannot_lead_to_another_question(self, store: Store) -> None:
        record(store, A, "one")
        store.add(fixture("other", scope=B, question="other"), scope=B)
        store.commit()
        index = parse_index((store.root / "INDEX.toml").read_text())
        other = next(row for row in index.fixtures if row.prompt_hash != KEY.prompt_hash)
        lying = ScopedRow(other.path, other.blake3, *KEY, scope=B)
        text = render_index(Index([row for row in index.fixtures if row != other], scoped=[lying]))
        (store.root / "INDEX.toml").write_text(text)

        with pytest.raises(FixtureIntegrityFailed, match="key of its row"):
            Store.open(store.root)
        with pytest.raises(FixtureIntegrityFailed, match="key of its row"):
            Store.open(store.root, verify="on-read").get(*KEY, B)


def test_at_the_top_of_a_flat_store_only_shared_files_stand(tmp_path: Path) -> None:
    """``crtx-llm`` refuses any other there."""
    root = shutil.copytree(REPLAY_FIXTURES, tmp_path / "flat")
    store = Store.open(root)
    item = store.list()[0]
    key = (item.model, item.prompt_hash)
    store.add(Fixture(store.get(*key).key, (Answer("of a"),), meta={"scope": A}), scope=A)
    store.pin(B, *key)
    store.commit()

    assert store.get(*key, A).answers[0].text == "of a"
    assert store.scopes == {A, B}
    store.replace(Fixture(store.get(*key).key, (Answer("new"),)))
    store.commit()

    listed = {row["path"] for row in tomllib.loads((root / "INDEX.toml").read_text())["fixture"]}
    top = {path.name for path in root.glob("*.json")} - {"schema.json"}
    assert top <= listed
    assert store.get(*key, A).answers[0].text == "of a"
    assert check_store(DirectorySource(root)).findings == []
