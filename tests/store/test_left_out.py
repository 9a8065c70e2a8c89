"""JSON below ``fixtures`` that has nothing to do with the store."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import Answer, FixtureIntegrityFailed, Store
from cortex_replay.store.check import check_listing
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.left_out import LeftOut
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import run


@pytest.fixture
def stranger(builder: StoreBuilder) -> str:
    """A file of another kind of fixtures, as every second web project has one."""
    (builder.root / "fixtures/users.json").write_text('[{"name": "Ada"}]')
    return "fixtures/users.json"


def ignore(builder: StoreBuilder, text: str) -> None:
    (builder.root / ".cortex-replay-ignore").write_text(text)


@pytest.mark.parametrize("command", ["verify", "index", "list"])
def test_the_message_names_the_way_out(builder: StoreBuilder, stranger: str, command: str) -> None:
    """And it is one: what it says to write makes the store whole again."""
    done = run(command, "--store", builder.root)
    assert done.exit_code == 5
    line = done.output.partition("add the line ")[2].partition(" to .cortex-replay-ignore beside")[0]
    assert line == stranger

    ignore(builder, f"{line}\n")
    assert run(command, "--store", builder.root).exit_code == 0
    assert len(builder.open()) == 2


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("fixtures/users.json", True),
        ("# ours\r\n\r\n  ./fixtures/users.json \r\n", True),
        ("fixtures/", True),
        ("fixtures", False),
        ("users.json", False),
        ("fixtures/*.json", False),
        ("fixtures/user", False),
        ("", False),
    ],
)
def test_what_a_line_says(builder: StoreBuilder, stranger: str, text: str, is_left_out: bool) -> None:
    """A whole path, or a folder."""
    ignore(builder, text)

    assert builder.codes() == ([] if is_left_out else ["unlisted"])


def test_a_folder_is_not_its_neighbour() -> None:
    left_out = LeftOut(frozenset(["fixtures/django/", "a.json"]))

    assert "fixtures/django/deep/x.json" in left_out
    assert "fixtures/django2/x.json" not in left_out
    assert "b/a.json" not in left_out


def test_a_listed_file_counts_all_the_same(builder: StoreBuilder, stranger: str) -> None:
    """A hostile repository hides no change by it."""
    ignore(builder, f"fixtures/\n{stranger}\n")
    path = next(builder.root.glob("fixtures/*/*.json"))
    path.write_bytes(path.read_bytes().replace(b"One.", b"Uno.").replace(b"Two.", b"Due."))
    assert builder.codes() == ["mismatch"]
    path.unlink()
    assert builder.codes() == ["missing"]
    assert [one.code for one in check_listing(DirectorySource(builder.root)).findings] == ["missing"]


def test_what_is_left_out_is_never_adopted(builder: StoreBuilder) -> None:
    """Nor served, although it is a whole recording."""
    recording = next(builder.root.glob("fixtures/*/*.json"))
    shutil.copy(recording, builder.root / "fixtures/copy.json")
    ignore(builder, "fixtures/copy.json\n")
    before = builder.index_text()

    assert run("index", "--store", builder.root).exit_code == 0
    assert builder.index_text() == before
    assert "fixtures/copy.json" not in [item.path for item in builder.open().list()]


@pytest.mark.parametrize("kind", ["link", "pipe", "huge", "folder"])
def test_another_thing_in_its_place_leaves_nothing_out(
    builder: StoreBuilder, stranger: str, kind: str
) -> None:
    path = builder.root / ".cortex-replay-ignore"
    if kind == "link":
        (builder.root.parent / "list").write_text(stranger)
        path.symlink_to(builder.root.parent / "list")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text(f"{stranger}\n" * 20_000)

    assert builder.codes() == ["unlisted"]


def test_what_git_would_commit(builder: StoreBuilder, stranger: str) -> None:
    """The list is a part of it: a clone must have it, too."""
    ignore(builder, stranger)
    subprocess.run(["git", "init", "-q", builder.root], check=True)
    subprocess.run(["git", "add", "fixtures", "INDEX.toml"], cwd=builder.root, check=True)
    assert run("verify", "--staged", "--store", builder.root).exit_code == 5
    subprocess.run(["git", "add", ".cortex-replay-ignore"], cwd=builder.root, check=True)
    assert run("verify", "--staged", "--store", builder.root).exit_code == 0


def test_in_a_flat_store(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, is_flat=True)
    builder.add("one", "One.")
    builder.write()
    (tmp_path / "package.json").write_text("{}")
    assert builder.codes() == ["unlisted"]
    ignore(builder, "package.json")
    assert builder.codes() == []


@pytest.mark.parametrize("make", [Store.create, Store.open_or_create])
def test_no_store_is_begun_among_files_that_it_would_have_to_list(
    tmp_path: Path, make: Callable[[Path], Store]
) -> None:
    """Else the first recording would be paid for, and then refused."""
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/users.json").write_text("[]")
    with pytest.raises(FixtureIntegrityFailed, match=r"users\.json") as error:
        make(tmp_path)

    assert ".cortex-replay-ignore" in (error.value.issues[0].hint or "")
    assert not (tmp_path / "INDEX.toml").exists()
    (tmp_path / ".cortex-replay-ignore").write_text("fixtures/users.json\n")
    store = make(tmp_path)
    store.add(fixture_of(ask("Hi."), Answer("Hello.")))
    store.commit()
    assert len(Store.open(tmp_path)) == 1


@pytest.mark.parametrize("text", ["fixtures/", "fixtures/users.json\nfixtures/"])
def test_a_recording_that_is_gone_is_missing_whatever_is_left_out(
    builder: StoreBuilder, stranger: str, text: str
) -> None:
    """Only what nobody lists can be left out."""
    ignore(builder, text)
    (builder.root / builder.fixtures[0].path).unlink()

    assert builder.codes() == ["missing"]
