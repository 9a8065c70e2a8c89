"""Making a store: after a kill, after a loss of power, and beside another there is none, or a whole one."""

from __future__ import annotations

import ast
import re
import shutil
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

import cortex_replay
from cortex_replay import Store, StoreIo
from tests.sampling import IS_TORTURE
from tests.torture import roads
from tests.torture.plans import SCRATCH, fixture, is_locked, sound_answers
from tests.torture.power_loss import Verdict, by_store, look
from tests.torture.roads import ALL_LINES, NO_STORE, OWN_LINES, ROADS, Road
from tests.torture.shim import Call, Counter, Killer, hooked, in_child
from tests.torture.strace import Event, trace
from tests.torture.test_power_loss import Judge

MOST: Final = 20_000 if IS_TORTURE else 200
STEP: Final = 1 if IS_TORTURE else 5
CREATIONS: Final = [name for name in ROADS if name.startswith("create")]


def go_on(road: Road, root: Path) -> None:
    """What comes next where there is no store: it is made, whatever is left of the last attempt."""
    if road is ROADS["export"]:  # it refuses a folder with something in it, and says so
        shutil.rmtree(root, ignore_errors=True)
    road.make(root)


class CreationJudge(Judge):
    """Also takes the place of whoever comes next."""

    def __init__(self, folder: Path, road: Road) -> None:
        super().__init__(folder)
        self.road = road

    def _look(self) -> Verdict:
        lines = self.root / ".gitattributes"
        if lines.exists() and lines.read_bytes() not in (
            OWN_LINES,
            ALL_LINES,
            ALL_LINES[len(OWN_LINES) + 1 :],
        ):
            return "what git is told is torn"
        if (self.root / "INDEX.toml").exists():
            return super()._look()
        go_on(self.road, self.root)
        assert len(sound_answers(self.root)) == len(self.road.found[-1])
        return (NO_STORE,)


@cache
def traced_creation(name: str) -> list[Event]:
    """What is done on a road."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (apt-get install strace)")
    with TemporaryDirectory(dir=SCRATCH) as folder:
        stores = (Path(folder) / "stores").resolve()
        stores.mkdir()
        try:
            return by_store(trace([roads.__file__, stores, name], stores, Path(folder) / "trace"))["store"]
        except OSError as error:
            pytest.skip(f"strace cannot trace here: {error}")


def judged(name: str, left_out: str = "") -> list[str]:
    """What is wrong after a loss of power on a road, with the syncs of some paths left out."""
    with TemporaryDirectory(dir=SCRATCH) as scratch:
        folder = Path(scratch)
        events = traced_creation(name)
        (folder / "judged").mkdir()
        if name == "export":
            ROADS[name].prepare(folder / "judged/store")
        kept = [
            event
            for event in events
            if event.call != "sync" or not left_out or not re.search(left_out, event.path)
        ]
        assert (len(kept) < len(events)) == bool(left_out)
        outcome = look(kept, CreationJudge(folder / "judged", ROADS[name]), Random(0), MOST)
        assert outcome.instants > 5
        return outcome.bad


@pytest.mark.parametrize("name", ROADS)
def test_a_loss_of_power_leaves_no_store_or_a_whole_one(name: str) -> None:
    """Whatever of it reached the disk; and whoever comes next makes the store."""
    assert judged(name) == []


@pytest.mark.parametrize("left_out", [r"index\.tmp$", r"attributes\.tmp$", "^store$"])
def test_every_sync_of_a_creation_is_needed(left_out: str) -> None:
    assert judged("create among others' files", left_out)


@pytest.mark.parametrize("name", ROADS)
def test_killed_at_each_call_there_is_none_or_a_whole_one(name: str) -> None:
    """And whoever comes next makes it."""
    road = ROADS[name]
    with TemporaryDirectory(dir=SCRATCH) as scratch:
        folder = Path(scratch)
        counter = Counter()
        rehearsal = _prepared(folder, road, "rehearsal")
        with hooked(counter):
            road.make(rehearsal)
        count = len(counter.changed)
        assert count > 5
        for at in range(1, count + 1, 1 if name in CREATIONS else STEP):
            root = _prepared(folder, road, f"{at}")
            killer = Killer(at, "amid" if at % 2 else "before")
            assert in_child(lambda _, root=root, killer=killer: _hooked(road, root, killer)).was_killed  # type: ignore[misc]
            if not (root / "INDEX.toml").exists():
                go_on(road, root)
            assert len(sound_answers(root)) in {len(answers) for answers in road.found}


def _prepared(folder: Path, road: Road, name: str) -> Path:
    root = folder / name / "store"
    root.parent.mkdir()
    if not (folder / "other").exists():
        road.prepare(root)
    return root


def _hooked(road: Road, root: Path, killer: Killer) -> None:
    with hooked(killer):
        road.make(root)


class BeforeTheLock:
    """Lets somebody else be faster, at the instant before this one has the lock."""

    def __init__(self, other: Callable[[], None]) -> None:
        self.other: Callable[[], None] | None = other

    def __call__(self, name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        if name == "flock" and self.other is not None:
            other, self.other = self.other, None
            in_child(lambda _: other())
        return call(*args, **kwargs)


def test_who_comes_second_sees_the_store_of_the_first(tmp_path: Path) -> None:
    """Also if it began first: what is recorded meanwhile is not lost."""
    root = tmp_path / "store"
    with (
        hooked(BeforeTheLock(lambda: ROADS["record"].make(root))),
        pytest.raises(StoreIo, match="a store already"),
    ):
        Store.create(root)
    assert len(sound_answers(root)) == 1


def test_who_records_second_adds_to_the_store_of_the_first(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = Store.open_or_create(root)
    with hooked(BeforeTheLock(lambda: ROADS["record"].make(root))):
        store.add(fixture("b one", "2"))
    store.commit()
    assert sound_answers(root) == {"a one": "1", "b one": "2"}


def test_the_index_is_put_in_place_under_the_lock(tmp_path: Path) -> None:
    """Of two who saw no index, the second looks again when it has the lock."""
    root = tmp_path / "store"
    was_locked: list[bool] = []

    def look_at_lock(name: str, call: Call, *args: Any, **kwargs: Any) -> Any:
        if name == "replace" and args[1] == "INDEX.toml":
            was_locked.append(is_locked(root))
        return call(*args, **kwargs)

    with hooked(look_at_lock):
        Store.create(root)
    assert was_locked == [True]


def test_many_at_once_make_one_store(tmp_path: Path) -> None:
    """One of them makes it, and the others are told so."""
    root = tmp_path / "store"
    gate = threading.Barrier(6)
    said: list[str] = []

    def make() -> None:
        gate.wait()
        try:
            Store.create(root)
            said.append("made")
        except StoreIo as error:
            said.append(str(error))

    threads = [threading.Thread(target=make) for _ in range(gate.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted("a store already" in words for words in said) == [False] + [True] * 5
    assert "made" in said
    assert sound_answers(root) == {}


def test_a_store_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    """No state folder is made for nothing."""
    (tmp_path / "INDEX.toml").write_text("format = 1\n")
    with pytest.raises(StoreIo, match="a store already"):
        Store.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["INDEX.toml"]


def test_nothing_else_puts_an_index_in_place() -> None:
    """So all who make a store go one of these roads: a merge driver writes what git names, and no more."""
    package = Path(cortex_replay.__file__).parent
    doors = {
        f"{path.relative_to(package)}"
        for path in package.rglob("*.py")
        if b"INDEX_NAME" in (text := path.read_bytes())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"create", "replace", "rename", "append", "open_file"}
        and any(isinstance(argument, ast.Name) and argument.id == "INDEX_NAME" for argument in node.args)
    }
    assert doors == {"store/creation.py", "store/export.py"}
