"""What workers published becomes one commit: checked, whole, and each of it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import Fixture, LlmRequest, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote.cache import object_name
from cortex_replay.remote.seals import Seal
from cortex_replay.sharing.collect import Collection, plan_collection
from cortex_replay.sharing.published import PublishedRow, render_rows
from cortex_replay.sharing.publisher import Publisher
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture_json import render_fixture
from tests.builder import ask
from tests.engine.counting import DIE, texts
from tests.fleets import SEAL, MemoryBucket

TEST = "tests/test_a.py::test_it"


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


class Machine:
    """A worker with a store of its own."""

    def __init__(self, name: str, root: Path, bucket: MemoryBucket, seal: Seal = SEAL) -> None:
        self.store = Store.open_or_create(root)
        self.publisher = Publisher(bucket, seal, name)
        self.store.attest(self.publisher)

    def record(self, request: LlmRequest, *answers: str, scope: str = "", overwrite: bool = False) -> None:
        meta: dict[str, JsonValue] | None = {"scope": scope} if scope else None
        fixture = Fixture.of(request, *answers)
        fixture = Fixture(fixture.key, fixture.answers, fixture.request, meta)
        if overwrite:
            self.store.replace(fixture, scope=scope)
        else:
            self.store.add(fixture, keep_existing=True, scope=scope)

    def end(self) -> None:
        self.publisher.end()


@pytest.fixture
def machine(tmp_path: Path, bucket: MemoryBucket) -> Callable[[str], Machine]:
    return lambda name: Machine(name, tmp_path / name, bucket)


@pytest.fixture
def collect(tmp_path: Path, bucket: MemoryBucket) -> Callable[[], Collection]:
    def act() -> Collection:
        store = Store.open_or_create(tmp_path / "all")
        found = plan_collection(store, bucket, SEAL)
        summary = found.apply(store)
        assert summary.added == [change.row.path for change in found.plan.added]
        Store.open(tmp_path / "all")  # in full
        return found

    return act


def test_everything_comes_once(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    """Collected twice it is the same; what came since then is added, and nothing else."""
    one, two = machine("one"), machine("two")
    one.record(DIE, "Four.")
    two.record(ask("Other?"), "Yes.", scope=TEST)
    two.store.add_exchange(Exchange.failure(two.store.key(DIE), 3, {"status": 500, "body": "no"}))
    one.end()
    two.end()

    found = collect()
    assert (found.answers, len(found.plan.added), found.run.workers) == (3, 3, ["one", "two"])
    assert found.is_whole
    index = (tmp_path / "all/INDEX.toml").read_bytes()
    again = collect()
    assert (again.answers, again.plan.added) == (3, [])
    assert (tmp_path / "all/INDEX.toml").read_bytes() == index

    two.record(ask("Later?"), "Yes.")
    two.publisher.flush()
    assert len(collect().plan.added) == 1
    assert texts(tmp_path / "all") == ["Four."]


def test_scopes_keep_their_answers(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    one, two = machine("one"), machine("two")
    one.record(DIE, "Four.", scope="a")
    two.record(DIE, "Two.", scope="b")
    one.end()
    two.end()

    assert not collect().conflicts
    store = Store.open(tmp_path / "all")
    key = store.key(DIE)
    assert [store.get(*key, scope).answers[0].text for scope in ("a", "b")] == ["Four.", "Two."]


def test_what_a_failed_test_recorded_does_not_count(
    machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    """But what was left, or of a worker that died, does."""
    one = machine("one")
    failed, kept = one.store.branch(), one.store.branch()
    failed.add(Fixture.of(DIE, "Wrong."))
    failed.discard()
    kept.add(Fixture.of(ask("Kept?"), "Yes."))
    kept.abandon()
    one.record(ask("Dead?"), "Yes.")
    one.publisher.flush()

    found = collect()
    assert (found.answers, found.run.withdrawn) == (2, 1)
    assert found.run.unfinished == ["one"]
    assert not found.is_whole


def test_two_answers_to_one_question_are_named(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection], bucket: MemoryBucket
) -> None:
    """One is taken, that which most workers have; none is lost."""
    machines = [machine(name) for name in ("one", "two", "three")]
    for worker, answer in zip(machines, ("Four.", "Two.", "Two."), strict=True):
        worker.record(DIE, answer)
        worker.end()

    found = collect()
    (conflict,) = found.conflicts
    assert texts(tmp_path / "all") == ["Two."]
    digests = {answer: blake3_hex(render_fixture(Fixture.of(DIE, answer))) for answer in ("Two.", "Four.")}
    assert conflict.taken in {row.blake3 for _, row in found.run.rows} - {digests["Four."]}
    assert len(conflict.others) == 1
    assert bucket.get(object_name(conflict.others[0])) is not None
    assert not found.is_whole
    assert collect().conflicts == found.conflicts


def test_more_answers_take_the_place_of_fewer(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    one, two = machine("one"), machine("two")
    one.record(DIE, "Four.")
    two.record(DIE, "Four.", "Two.")
    one.record(DIE, "Four.")

    one.end()
    two.end()
    assert not collect().conflicts
    assert texts(tmp_path / "all") == ["Four.", "Two."]


def test_what_the_store_has_stays_unless_it_was_to_be_overwritten(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    store = Store.create(tmp_path / "all")
    store.add(Fixture.of(DIE, "Old."))
    store.add(Fixture.of(ask("Other?"), "Old."))
    store.commit()
    one = machine("one")
    one.record(DIE, "New.")
    one.record(ask("Other?"), "New.", overwrite=True)
    one.end()

    (conflict,) = collect().conflicts
    assert not conflict.taken
    assert texts(tmp_path / "all") == ["Old."]
    assert texts(tmp_path / "all", ask("Other?")) == ["New."]


def test_pins_and_removals_come_along(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection]
) -> None:
    for place in ("all", "one"):
        store = Store.create(tmp_path / place)
        store.add(Fixture.of(DIE, "Old."))
        store.add_exchange(Exchange.failure(store.key(DIE), 2, {"status": 500, "body": "no"}))
        store.commit()
    one = machine("one")
    key = one.store.key(DIE)
    one.store.pin(TEST, *key)
    one.store.remove_failure(*key, 2)
    one.end()

    collect()
    store = Store.open(tmp_path / "all")
    assert store.has_own(*key, TEST)
    assert not store.failures(*key)
    assert list(store.failures(*key, TEST)) == [2]


@pytest.mark.parametrize("attack", ["other bytes", "gone", "no recording", "another question"])
def test_an_object_that_is_not_what_it_should_be_is_named(
    attack: str,
    tmp_path: Path,
    machine: Callable[[str], Machine],
    collect: Callable[[], Collection],
    bucket: MemoryBucket,
) -> None:
    """All others are collected."""
    one = machine("one")
    one.record(ask("Fine?"), "Yes.")
    one.record(DIE, "Four.")
    one.end()
    digest = next(
        row.blake3
        for _, row in plan_collection(one.store, bucket, SEAL).run.rows
        if row.about[1] == one.store.key(DIE).prompt_hash
    )
    if attack in ("gone", "other bytes"):
        bucket.delete([object_name(digest)])
    if attack == "other bytes":
        bucket.put_new(object_name(digest), b"{}")
    if attack in ("no recording", "another question"):
        data = b"[]" if attack == "no recording" else render_fixture(Fixture.of(ask("Third?"), "Yes."))
        bucket.put_new(object_name(blake3_hex(data)), data)
        key = one.store.key(DIE)
        row = PublishedRow(1, "fixture", about=(*key, None, None), blake3=blake3_hex(data))
        name = f"{SEAL.folder}rows/two-000000"
        bucket.put_new(name, render_rows([row], name, SEAL))

    found = collect()
    codes = {
        "gone": "missing",
        "other bytes": "mismatch",
        "no recording": "fixture-invalid",
        "another question": "key-mismatch",
    }
    assert [finding.code for finding in found.findings] == [codes[attack]]
    assert not found.is_whole
    assert texts(tmp_path / "all", ask("Fine?")) == ["Yes."]


def test_what_a_stranger_puts_into_the_run_does_not_count(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection], bucket: MemoryBucket
) -> None:
    """Without the run's name, neither a row of their own nor one of the run in another place."""
    one = machine("one")
    one.record(DIE, "Four.")
    one.end()
    stranger = Machine("mallory", tmp_path / "mallory", bucket, Seal.of("some other name of a run"))
    stranger.record(ask("Evil?"), "Yes.")
    stranger.end()
    (real,) = bucket.names("rows/")
    (foreign,) = [entry.name for entry in bucket.list("runs/") if "rows/mallory" in entry.name]
    copies = {f"{SEAL.folder}rows/mallory-000000": foreign, f"{SEAL.folder}rows/two-000000": real}
    for name, source in copies.items():
        there = bucket.get(source)
        assert there is not None
        bucket.put_new(name, there.data)
    bucket.put_new(f"{SEAL.folder}ended/two", b"7")

    found = collect()
    assert sorted(found.run.strangers) == sorted([*copies, f"{SEAL.folder}ended/two"])
    assert found.run.workers == ["one"]
    assert len(Store.open(tmp_path / "all")) == 1


@pytest.mark.parametrize("gone", [0, 2])
def test_rows_that_are_gone_are_missed(
    gone: int, machine: Callable[[str], Machine], collect: Callable[[], Collection], bucket: MemoryBucket
) -> None:
    """The first, and the last: a worker says at its end how many there were."""
    one = machine("one")
    for question in ("One?", "Two?", "Three?"):
        one.record(ask(question), "Yes.")
        one.publisher.flush()
    one.end()
    bucket.delete([bucket.names("rows/")[gone]])

    found = collect()
    assert [finding.path for finding in found.findings] == [f"rows/one-00000{gone}"]
    assert found.answers == 2


def test_a_publisher_tries_again(
    tmp_path: Path, machine: Callable[[str], Machine], collect: Callable[[], Collection], bucket: MemoryBucket
) -> None:
    """With the next change, and when it is asked to; nothing comes twice."""
    one = machine("one")
    bucket.is_gone.append(True)
    one.record(DIE, "Four.")
    with pytest.raises(StoreIo, match="1 answer"):
        one.publisher.flush()
    one.record(ask("Other?"), "Yes.")
    with pytest.raises(StoreIo, match="2 answers"):
        one.publisher.flush()
    bucket.is_gone.clear()
    one.end()

    assert one.publisher.published == 2
    assert len(collect().run.rows) == 2


def test_a_put_that_was_not_confirmed_is_known_again(
    machine: Callable[[str], Machine], collect: Callable[[], Collection], bucket: MemoryBucket
) -> None:
    """The first try put the rows, and its answer was lost; the next one finds them there."""
    one = machine("one")
    real = bucket.put_new
    losses = [True]

    def put_new(name: str, data: bytes) -> bool:
        is_put = real(name, data)
        if "rows/" in name and losses:
            losses.clear()
            raise StoreIo("the connection broke")
        return is_put

    one.publisher._bucket = type(
        "Lossy", (), {"put_new": staticmethod(put_new), "get": bucket.get, "url": ""}
    )()
    one.record(DIE, "Four.")
    one.publisher.flush()  # which tries again
    one.end()
    assert losses == []
    assert (collect().answers, one.publisher.published) == (1, 1)
