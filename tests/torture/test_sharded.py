"""The same crashes, on a store whose index has shards: ``kill -9`` at each call, and losses of power."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from cortex_replay import Store
from cortex_replay.errors import LlmError
from cortex_replay.store import creation
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index import shards
from cortex_replay.store.lock import LockedStore
from tests.sampling import IS_TORTURE
from tests.torture.doomed import DoomedStore, Run, count_calls
from tests.torture.plans import (
    BASE,
    SCRATCH,
    Answers,
    Op,
    after,
    fixture,
    make_store,
    perform,
    sound_answers,
)
from tests.torture.power_loss import look
from tests.torture.shim import CHANGING, Call, Killer, hooked, in_child
from tests.torture.strace import Event
from tests.torture.test_kill import PRUNE, failures, told
from tests.torture.test_power_loss import Judge, traced_stores

BATCHES: Final = 20 if IS_TORTURE else 1
POINTS: Final = 100 if IS_TORTURE else 2
STEP: Final = 1 if IS_TORTURE else 23
MOST: Final = 1000
RECORDING: Final = Run("record", [[Op("add", "c new", "5"), Op("replace", "a one", "uno")]])
SYNCS: Final = {
    "all": "",
    "the shards that wait": r"/shards/[0-9a-f]{64}$",
    "their folder": r"\.cortex-replay/shards$",
    "the shards in their places": r"store/index/[0-9a-f]{2}\.toml$",
    "the folder of these": r"store/index$",
    "the index": r"index\.tmp$",
    "the folder of the index": "^store$",
    "the journal": r"journal\.tmp$",
}


only_torture = pytest.mark.skipif(not IS_TORTURE, reason="takes minutes: make torture")


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store has shards as soon as it has rows."""
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", 0)


def killed_at_each_call(run: Run, step: int) -> list[str]:
    """What goes wrong when a process is killed at its calls, or at some of them."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        count = count_calls(run, make_store(Path(folder) / "rehearsal"))
        stores = [
            DoomedStore(make_store(Path(folder) / f"{at}"), Random(at)) for at in range(1, count + 1, step)
        ]

        def check(store: DoomedStore) -> None:
            store.kill(run, Killer(int(store.root.name), "before"))
            store.check_next_writer()

        return told(stores, check)


@pytest.mark.parametrize("run", [RECORDING, PRUNE], ids=["recording", "prune"])
def test_killed_at_each_call(run: Run) -> None:
    wrong = killed_at_each_call(run, STEP)

    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_old_set_or_new_set_whenever_it_is_killed(batch: int) -> None:
    """Also after two or three kills, while it retreats, and while it recovers."""
    wrong = failures(1000 + batch, POINTS)

    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def root_first(store: LockedStore, files: shards.IndexFiles) -> None:
    """Instead of having the shards wait before the root names them."""
    creation.put_index(store._root, store.state, files.root)
    put_index(store, files)


put_index = LockedStore.put_index


def never_placing(_: LockedStore, __: object) -> None:
    """Instead of putting the shards that wait in their places."""


def placing_at_once(store: LockedStore, files: shards.IndexFiles) -> None:
    """Instead of leaving the old shards in their places until the root names the new ones."""
    for name, data in files.shards.items():
        path = Path(store._root.path) / f"index/{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    put_index(store, files)


@only_torture
@pytest.mark.parametrize(
    ("name", "mutant"),
    [("put_index", root_first), ("_place_shards", never_placing), ("put_index", placing_at_once)],
)
def test_these_tests_can_fail(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., None]
) -> None:
    """A writer that is careless in one place is found out."""
    monkeypatch.setattr(LockedStore, name, mutant)

    try:
        wrong = killed_at_each_call(RECORDING, 1)
    except (AssertionError, LlmError) as error:  # nobody can even make the store
        wrong = [str(error)]
    assert wrong


class Watcher:
    """Looks at a store before each call of a writer that changes something, as every kind of reader does."""

    def __init__(self, root: Path, allowed: list[Answers]) -> None:
        self.root = root
        self.allowed = allowed
        self.long_lived = Store.open(root, verify="on-read")
        self.found: list[Answers] = []
        self.is_looking = False

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        if name in CHANGING and not self.is_looking:
            self.is_looking = True
            self.look()
            self.is_looking = False
        return call(*args, **kwargs)

    def look(self) -> None:
        self.found.append(sound_answers(self.root))
        assert self.found[-1] in self.allowed
        for question in BASE:
            text = self.long_lived.get(*fixture(question, "").key).answers[0].text
            assert text in {answers[question] for answers in self.allowed}


def test_readers_at_every_instant_of_a_commit() -> None:
    """Whoever opens the store, and whoever had it open, gets the old set or the new one."""
    ops = [Op("add", "c new", "5"), Op("replace", "a one", "uno"), Op("replace", "b two", "due")]
    with TemporaryDirectory(dir=SCRATCH) as folder:
        root = make_store(Path(folder) / "store")
        store = Store.open(root)
        for op in ops:
            perform(store, op)
        new = after(BASE, ops)
        watcher = Watcher(root, [BASE, new])
        with hooked(watcher):
            store.commit()
        watcher.look()

    assert watcher.found[0] == BASE
    assert watcher.found[-1] == new
    assert len(watcher.found) > 30


@only_torture
def test_readers_beside_a_writer() -> None:
    """Four processes that read all the while, and one that commits."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        root = make_store(Path(folder) / "store")
        done = Path(folder) / "done"

        def read(say: Callable[[str], None]) -> None:
            reader = Store.open(root, verify="on-read")
            while not done.exists():
                assert check_store(DirectorySource(root)).findings == []
                for store in (reader, Store.open(root), Store.open(root, verify="on-read")):
                    assert len(store) >= len(BASE)
                    texts = [store.get(*fixture(question, "").key).answers[0].text for question in BASE]
                    assert texts[0].startswith(("1", "uno"))
                    assert texts[1:] == list(BASE.values())[1:]
                say("looked")

        def write(_: Callable[[str], None]) -> None:
            try:
                store = Store.open(root)
                for number in range(200):
                    perform(store, Op("replace", "a one", f"uno {number}"))
                    perform(store, Op("add", f"c {number}", "new"))
                    store.commit()
            finally:
                done.touch()

        with ThreadPoolExecutor(5) as pool:
            *readers, writer = pool.map(in_child, [read, read, read, read, write])

    assert not writer.was_killed
    assert all(reader.said.count("looked") > 5 for reader in readers)


@pytest.fixture(scope="module")
def calm() -> list[Event]:
    return traced_stores("calm", 1, "0")["calm"]


@pytest.fixture
def judge() -> Iterator[Judge]:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        yield Judge(Path(folder))


@only_torture
def test_commits_survive_a_loss_of_power(calm: list[Event], judge: Judge) -> None:
    outcome = look(calm, judge, Random(0), MOST)

    assert outcome.bad == []
    assert outcome.instants > 150
    assert any("/shards/" in path for state in outcome.states for path, _ in state)


@only_torture
@pytest.mark.parametrize("left_out", SYNCS)
def test_every_sync_is_needed(calm: list[Event], judge: Judge, left_out: str) -> None:
    calls = [event for event in calm if event.call != "sync" or not re.search(SYNCS[left_out], event.path)]
    outcome = look(calls, judge, Random(0), MOST)

    assert len(calls) < len(calm)
    assert outcome.bad
