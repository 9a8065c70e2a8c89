"""Whose state it is: the mark of a user, and the key that it is made with."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from cortex_replay import Answer, Store, StoreIo
from cortex_replay.store.git.repository import is_tracked
from cortex_replay.store.journal import Journal, parse_journal, render_journal
from cortex_replay.store.marks import Marker, known_marker, user_marker
from tests.builder import StoreBuilder, ask, fixture_of

STATE: Final = ".cortex-replay"
RECORDING: Final = """
import os
from cortex_replay import Answer, Store
from tests.builder import ask, fixture_of
store = Store.open(".")
store.add(fixture_of(ask("Mine?"), Answer("Mine.")))
"""


@pytest.fixture(autouse=True)
def _in_the_store(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(builder.root)


def python(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, without what this one knows; an empty variable is none."""
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | variables
    here = {name: value for name, value in here.items() if value}
    return subprocess.run(
        [sys.executable, "-c", script], env=here, capture_output=True, text=True, check=False
    )


def die_with_an_answer(**variables: str) -> subprocess.CompletedProcess[str]:
    return python(f"{RECORDING}\nos._exit(0)", **variables)


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def test_the_key_is_private_and_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when many processes are first."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    context = multiprocessing.get_context("fork")
    start = context.Barrier(8)
    queue = context.SimpleQueue()

    def mark() -> None:
        start.wait(30)
        queue.put(user_marker().mark("test"))

    processes = [context.Process(target=mark) for _ in range(8)]
    for process in processes:
        process.start()
    marks = {queue.get() for _ in processes}
    for process in processes:
        process.join(30)

    folder = tmp_path / "home/state/cortex-replay"
    assert marks == {user_marker().mark("test")}
    assert len((folder / "mark.key").read_bytes()) == 32
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {path.name for path in folder.iterdir()} == {"lock", "mark.key"}


def test_a_reader_makes_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    Path(STATE, "staging", "planted").mkdir(parents=True)
    assert known_marker() is None
    assert Store.open(".").abandoned().unmarked == 1

    assert not (tmp_path / "none").exists()


def make_link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, Path.touch, make_link])
def test_a_key_that_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Is not used, and not written over; recording works."""
    folder = tmp_path / "home" / "cortex-replay"
    folder.mkdir(parents=True)
    make(folder / "mark.key")
    before = (folder / "mark.key").lstat()[:7]
    done = python(f"{RECORDING}\nstore.commit()", XDG_STATE_HOME=str(tmp_path / "home"))

    assert "no key can be kept" in done.stderr
    assert len(Store.open(".")) == 3
    assert (folder / "mark.key").lstat()[:7] == before


@pytest.mark.parametrize(
    "variables", [{"XDG_STATE_HOME": "/proc/none"}, {"XDG_STATE_HOME": "", "HOME": "/proc"}]
)
def test_without_a_key_recording_works_and_nobody_takes_over(variables: dict[str, str]) -> None:
    died = die_with_an_answer(**variables)
    assert "no later run takes over" in died.stderr
    store = Store.open(".")
    assert (store.abandoned().answers, store.abandoned().unmarked) == (0, 1)
    assert store.adopt_abandoned() == 0
    done = python(f"{RECORDING}\nprint(store.adopt_abandoned())\nstore.commit()", **variables)

    assert done.stdout == "0\n", done.stderr
    assert len(Store.open(".")) == 3
    assert len(list(Path(STATE, "staging").glob("*/*.add"))) == 1, "nothing is lost"


def test_what_another_user_left_is_left_alone(tmp_path: Path) -> None:
    """Another key is another user, or another machine."""
    die_with_an_answer(XDG_STATE_HOME=str(tmp_path / "another"))
    store = Store.open(".")
    store.add(fixture_of(ask("New?"), Answer("New.")))
    store.commit()

    assert store.adopt_abandoned() == 0
    assert store.abandoned().unmarked == 1
    assert len(list(Path(STATE, "staging").glob("*/*.add"))) == 1


def test_what_one_left_oneself_is_taken_over() -> None:
    """Also if the store was moved or copied in between."""
    die_with_an_answer()
    shutil.copytree(".", "../copy")
    for root in (".", "../copy"):
        store = Store.open(root)
        assert store.abandoned().answers == 1
        assert store.adopt_abandoned() == 1
        store.commit()
        assert len(store) == 3
        assert store.abandoned() == type(store.abandoned())()


@pytest.mark.parametrize(
    "change",
    [
        {"added": ["fixtures/other.json"]},
        {"removed": ["fixtures/other.json"]},
        {"overwriting": ["fixtures/other.json"]},
        {"new_index": "1" * 64},
        {"old_index": "1" * 64},
        {"counter": 8},
        {"counter": 2**70},
        {"mark": ""},
        {"mark": "é" * 32},
        {"mark": None},
    ],
)
def test_a_mark_vouches_for_all_that_a_journal_says(change: dict[str, object]) -> None:
    written = render_journal(Journal(7, is_open=True, added=("fixtures/a.json",)), user_marker())
    assert parse_journal(written).is_marked_by(user_marker())
    changed = json.dumps(json.loads(written) | change).encode()

    assert not parse_journal(changed).is_marked_by(user_marker())
    assert not parse_journal(written).is_marked_by(Marker(b"k" * 32))
    assert not parse_journal(written).is_marked_by(None)


def test_a_closed_journal_of_somebody_else_is_no_obstacle() -> None:
    """It asks for nothing; one of an older version has no mark."""
    Path(STATE).mkdir()
    empty = {"is_open": False, "old_index": "", "new_index": "", "added": [], "removed": []}
    for said in (json.dumps({"counter": 2**70} | empty), "garbage", ""):
        Path(STATE, "journal").write_text(said)
        store = Store.open(".")
        store.add(fixture_of(ask(f"New {said}?"), Answer("New.")))
        store.commit()

    assert len(Store.open(".")) == 5


def test_state_is_private(builder: StoreBuilder) -> None:
    """Also in a folder that an older version made; what is committed is as readable as the index."""
    Path(STATE).mkdir(mode=0o755)
    Path("INDEX.toml").chmod(0o644)
    store = Store.open(".")
    path = store.add(fixture_of(ask("New?"), Answer("New.")))
    found = [Path(STATE), *Path(STATE).rglob("*")]
    modes = {item.as_posix(): stat.S_IMODE(item.stat().st_mode) for item in found}
    assert {mode for name, mode in modes.items() if Path(name).is_dir()} == {0o700}
    assert {mode for name, mode in modes.items() if Path(name).is_file()} == {0o600}
    store.commit()

    assert stat.S_IMODE(Path(STATE, "journal").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_folder_of_another_user() -> None:
    """Is neither written to, nor does its journal excuse anything."""
    store = Store.open(".")
    store.add(fixture_of(ask("New?"), Answer("New.")))
    store.commit()
    shutil.copy(store.list()[0].path, "fixtures/moving.json")
    journal = render_journal(Journal(9, is_open=True, added=("fixtures/moving.json",)), user_marker())
    Path(STATE, "journal").write_bytes(journal)
    assert StoreBuilder(Path()).codes() == []
    os.chown(STATE, 12345, 12345)

    assert StoreBuilder(Path()).codes() == ["unlisted"]
    Path("fixtures/moving.json").unlink()
    with pytest.raises(StoreIo, match=r"belongs to another user.*look at it, then remove it"):
        Store.open(".").adopt_abandoned()


@pytest.mark.parametrize("spelling", [STATE, ".Cortex-Replay"])
def test_state_that_git_tracks(builder: StoreBuilder, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came with the repository, whatever mark it carries."""
    git("init", "-q")
    Path("sub dir [x]").mkdir()
    root = builder.root / "sub dir [x]"
    Store.create(root)
    assert not is_tracked(root, STATE)
    shutil.rmtree(root / STATE)  # what comes with a repository is not what we made
    monkeypatch.setattr("cortex_replay.store.state._TRACKED", {})  # as another process finds it
    (root / spelling).mkdir()
    (root / spelling / "journal").touch()
    assert not is_tracked(root, STATE)
    git("add", "--force", ".")
    assert is_tracked(root, STATE)
    assert not is_tracked(root, "fixtures")
    if spelling == STATE:
        with pytest.raises(StoreIo, match=r"git tracks files in .*look at them, then remove them"):
            Store.open(root).add(fixture_of(ask("New?"), Answer("New.")))
        assert [path.name for path in (root / STATE).iterdir()] == ["journal"]


def test_a_repository_that_ignores_its_state_is_asked_once(
    builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q")
    Path(STATE).mkdir()
    asked = []

    def ask_git(root: Path, name: str) -> bool:
        asked.append(name)
        return is_tracked(root, name)

    monkeypatch.setattr("cortex_replay.store.state.is_tracked", ask_git)
    for question in ("A?", "B?"):
        store = Store.open(".")
        store.add(fixture_of(ask(question), Answer("New.")))
        store.commit()

    assert asked == [STATE]


def test_a_store_behind_a_link_is_read_and_not_written(builder: StoreBuilder, tmp_path: Path) -> None:
    """The repository chose the link; those above it are the user's own."""
    (tmp_path / "elsewhere").mkdir()
    StoreBuilder(tmp_path / "elsewhere/llm", files=builder.files, fixtures=builder.fixtures).write()
    Path("tests").symlink_to("../elsewhere")
    before = sorted(path for path in (tmp_path / "elsewhere").rglob("*"))
    store = Store.open("tests/llm")
    assert len(store) == 2
    with pytest.raises(StoreIo):
        store.add(fixture_of(ask("New?"), Answer("New.")))
    store.remove(*store.list()[0][:2])
    with pytest.raises(StoreIo):
        store.commit()
    with pytest.raises(StoreIo):
        Store.create("tests/other")
    os.chdir(tmp_path)  # the way there does not get better from elsewhere
    store.discard()
    with pytest.raises(StoreIo, match="behind a link, so it can be read but not written"):
        store.add(fixture_of(ask("New?"), Answer("New.")))

    assert sorted(path for path in (tmp_path / "elsewhere").rglob("*")) == before
    Path("short").symlink_to("store")
    os.chdir("short")
    Store.open(".").add(fixture_of(ask("New?"), Answer("New.")))
