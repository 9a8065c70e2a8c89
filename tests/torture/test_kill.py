"""``kill -9`` at any instant of recording, committing, pruning, retreating, recovering and adopting."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from cortex_replay import Store
from cortex_replay.disk import Folder
from cortex_replay.errors import LlmError
from cortex_replay.store.lock import LockedStore
from tests.sampling import IS_TORTURE, sample
from tests.torture.doomed import DoomedStore, Run, count_calls
from tests.torture.plans import BASE, SCRATCH, Op, fixture, make_store, sound_answers
from tests.torture.shim import Killer

POINTS: Final = 2000 if IS_TORTURE else 100
CALLS: Final = 4
"""Of a part of those at which a process is killed, in `make test`."""
BATCHES: Final = 20
# It adds to a folder and empties another one, so that every kind of step is there.
PRUNE: Final = Run("prune", [[Op("replace", "a one", "uno"), Op("remove", "b one"), Op("remove", "b two")]])


def told(stores: list[DoomedStore], check: Callable[[DoomedStore], None]) -> list[str]:
    """What ``check`` complains about, each time with the story of the store."""
    wrong = []
    for store in stores:
        try:
            check(store)
        except (AssertionError, LlmError) as error:
            wrong.append("\n  ".join([*store.story, f"{type(error).__name__}: {error}"]))
    return wrong


def failures(seed: int, points: int) -> list[str]:
    """What goes wrong after ``points`` kills; up to three hit the same store, one after the other."""
    random = Random(seed)
    wrong: list[str] = []
    while points > 0:
        kills = min(points, random.choice([1, 1, 2, 3]))
        points -= kills

        def check(store: DoomedStore, kills: int = kills) -> None:
            for number in range(kills):
                store.kill_one(number)
            store.check_next_writer()

        with TemporaryDirectory(dir=SCRATCH) as folder:
            root = make_store(Path(folder) / "store", is_fresh=random.random() < 0.3)
            wrong += told([DoomedStore(root, random)], check)
    return wrong


@pytest.mark.parametrize("batch", sample(range(BATCHES), 3))
def test_old_set_or_new_set_whenever_it_is_killed(batch: int) -> None:
    """Nothing committed is lost, no lock stays, the next writer cleans up; also after two or three kills."""
    wrong = failures(batch, POINTS // BATCHES)

    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} failures", *wrong]), pytrace=False)


@pytest.mark.parametrize("part", range(4))
def test_a_prune_killed_at_each_of_its_calls(part: int) -> None:
    """Not only at some of them."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        count = count_calls(PRUNE, make_store(Path(folder) / "rehearsal"))
        stores = [
            DoomedStore(make_store(Path(folder) / f"{at}"), Random(at))
            for at in sample(range(1 + part, count + 1, 4), CALLS)
        ]

        def check(store: DoomedStore) -> None:
            store.kill(PRUNE, Killer(int(store.root.name), "before"))
            store.check_next_writer()

        wrong = told(stores, check)

    assert len(stores) >= CALLS
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} failures", *wrong]), pytrace=False)


@pytest.mark.parametrize("part", range(2))
def test_a_conversation_that_loses_turns_killed_at_each_call(part: int) -> None:
    """Those that continue them are written anew in the same commit, or not at all."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        base = make_store(Path(folder) / "base")
        talk = {f"a new 9.{i}": f"talk {i}" for i in range(4)}
        store = Store.open(base)
        for question, text in talk.items():
            store.add(fixture(question, text))
        store.commit()
        run = Run(
            "prune", [[Op("remove", "a new 9.0"), Op("remove", "a new 9.2"), Op("add", "a new 9.4", "x")]]
        )
        count = count_calls(run, shutil.copytree(base, Path(folder) / "rehearsal"))
        stores = [
            DoomedStore(shutil.copytree(base, Path(folder) / f"{at}"), Random(at), BASE | talk)
            for at in sample(range(1 + part, count + 1, 2), CALLS)
        ]

        def check(store: DoomedStore) -> None:
            store.kill(run, Killer(int(store.root.name), "before"))
            store.check_next_writer()

        wrong = told(stores, check)

    assert len(stores) >= CALLS
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} failures", *wrong]), pytrace=False)


def without_journal(_: LockedStore, __: object) -> None:
    """Instead of writing the journal."""


def in_place(folder: Folder, name: str, data: bytes, _: str, **__: object) -> None:
    """Instead of replacing a file as a whole."""
    folder.unlink(name)
    folder.create(name, data, durable=True)


def never_recovering(_: LockedStore) -> None:
    """Instead of finishing or undoing what was cut short."""


def keeping_nothing(store: LockedStore, journal: object, _: object) -> None:
    """Instead of putting back into staging what an undone commit had moved."""
    for path in getattr(journal, "added", ()):
        (Path(store._root.path) / path).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    sample(
        [
            (LockedStore, "_write_journal", without_journal),
            (Folder, "replace", in_place),
            (LockedStore, "recover", never_recovering),
            (LockedStore, "_undo", keeping_nothing),
        ],
        2,
    ),
)
def test_these_tests_can_fail(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, mutant: Callable[..., None]
) -> None:
    """A writer that is careless in one place is found out."""
    monkeypatch.setattr(place, name, mutant)

    assert any(failures(seed, 5) for seed in range(20))


def test_a_replacement_stays_one_when_its_commit_is_killed() -> None:
    """Whoever adopts it can commit it; it does not turn into a second answer under its key."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        store = DoomedStore(make_store(Path(folder) / "store"), Random(0))
        run = Run("prune", [[Op("replace", "a one", "uno")]])
        store.kill(run, Killer(2, "after", frozenset(["replace"])))  # the journal, then the file

        assert store.staged == {"a one": "uno"}
        store.check_next_writer()
        assert sound_answers(store.root)["a one"] == "uno"


def test_a_prune_killed_when_its_folder_is_gone_does_not_block_the_next_writer() -> None:
    """The folder that it emptied and removed need not be there to be synced."""
    with TemporaryDirectory(dir=SCRATCH) as folder:
        store = DoomedStore(make_store(Path(folder) / "store"), Random(0))
        store.kill(PRUNE, Killer(1, "after", frozenset(["rmdir"])))

        store.check_next_writer()
