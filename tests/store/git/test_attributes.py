"""What a new store tells git, whoever makes it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.store.git.attributes import ATTRIBUTES, lines_to_add
from tests.builder import StoreBuilder
from tests.cli.commands import run

LINES = "INDEX.toml -text merge=cortex-replay\nfixtures/** -text\n"


def test_a_new_store_has_its_attributes(tmp_path: Path) -> None:
    Store.create(tmp_path / "llm")

    assert (tmp_path / "llm/.gitattributes").read_text() == LINES


def test_a_store_made_by_recording(tmp_path: Path) -> None:
    done = run(
        *(
            "record",
            "--store",
            tmp_path / "llm",
            "--provider",
            "scripted",
            "--model",
            "demo",
            "--prompt",
            "Hi",
        )
    )

    assert done.exit_code == 0, done.output
    assert (tmp_path / "llm/.gitattributes").read_text() == LINES


def test_a_folder_of_recordings_that_becomes_a_store(builder: StoreBuilder) -> None:
    (builder.root / "INDEX.toml").unlink()
    assert run("index", "--store", builder.root).exit_code == 0
    assert (builder.root / ".gitattributes").read_text() == LINES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", LINES),
        ("*.png binary\n", f"*.png binary\n{LINES}"),
        ("*.png binary", f"*.png binary\n{LINES}"),
        (f"{LINES}*.png binary\n", f"{LINES}*.png binary\n"),
        ("fixtures/** -text\n", "fixtures/** -text\nINDEX.toml -text merge=cortex-replay\n"),
    ],
)
def test_a_file_that_is_there_is_completed(tmp_path: Path, before: str, after: str) -> None:
    """Not replaced; its mode stays, too."""
    path = tmp_path / ".gitattributes"
    path.write_text(before)
    path.chmod(0o600)
    Store.create(tmp_path)

    assert path.read_text() == after
    assert path.stat().st_mode & 0o777 == 0o600
    assert lines_to_add(after.encode(), ATTRIBUTES) == b""


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder", "huge"])
def test_nothing_is_written_through_a_link(tmp_path: Path, kind: str) -> None:
    """The store is made all the same."""
    outside = tmp_path / "outside"
    root = tmp_path / "llm"
    root.mkdir()
    path = root / ".gitattributes"
    if kind == "link":
        outside.write_text("mine\n")
    if kind in ("link", "dangling"):
        path.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2**21)
    Store.create(root)

    assert (root / "INDEX.toml").is_file()
    assert (outside.read_text() if outside.exists() else "") == ("mine\n" if kind == "link" else "")
    assert kind != "huge" or path.stat().st_size == 2**21


def test_git_heeds_them(tmp_path: Path) -> None:
    """Also where the project converts every text."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitattributes").write_text("* text=auto eol=crlf\n")
    Store.create(tmp_path / "tests/llm")
    asked = [
        subprocess.run(
            ["git", "check-attr", "text", "--", f"tests/llm/{name}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("INDEX.toml", "fixtures/m/a.json")
    ]

    assert all(line.endswith("text: unset\n") for line in asked)
