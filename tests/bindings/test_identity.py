"""Who git says is at work: read as ``git config`` reads it, and nothing is run for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cortex_replay.bindings.identity import Identity
from cortex_replay.bindings.repository import Repository
from cortex_replay.bindings.surroundings import Surroundings

FILES = [
    "[user]\n\tname = Ann Example\n\temail = ann@example.com\n",
    '[user]\nname = "Ann Example" ; she herself\nemail=ann@example.com # at work\n',
    "[USER] Name = Ann Example\n[core]\nname = Bob\n[user]\nEMAIL = ann@example.com\n",
    '[user "work"]\nname = Bob Other\n[user]\nname = Bob\nname = Ann Example\nemail = ann@example.com\n',
    "[user]\n# name = Bob\n; name = Bob\nname = Ann Example  \nemail = ann@example.com\n[alias]\nname = x\n",
]
LONG = f"[user]\nname = {' ' * 60_000}\\\n"
"""Which a careless pattern takes minutes for."""


@pytest.mark.parametrize("text", FILES)
def test_a_file_is_read_as_git_reads_it(text: str, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(text)

    assert Identity.of({"HOME": os.fspath(tmp_path)}, None) == Identity("Ann Example", "ann@example.com")
    if shutil.which("git"):
        told = subprocess.run(
            ["git", "config", "--file", tmp_path / ".gitconfig", "user.name"], capture_output=True, check=True
        )
        assert told.stdout.decode() == "Ann Example\n"


def test_what_is_nearer_counts(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".config/git").mkdir(parents=True)
    (work / ".git").mkdir(parents=True)
    environment = {"HOME": os.fspath(home)}
    found = []
    for path, name in ((home / ".config/git/config", "One"), (home / ".gitconfig", "Two")):
        path.write_text(f"[user]\nname = {name} Example\n")
        found.append(Identity.of(environment, Repository.above(os.fspath(work))).name)
    (work / ".git/config").write_text("[user]\nname = Three Example\n")
    found.append(Identity.of(environment, Repository.above(os.fspath(work))).name)
    chosen = tmp_path / "chosen"
    chosen.write_text("[user]\nname = Four Example\n")
    found.append(Identity.of({**environment, "GIT_CONFIG_GLOBAL": os.fspath(chosen)}, None).name)

    assert found == ["One Example", "Two Example", "Three Example", "Four Example"]


@pytest.mark.parametrize(
    "text",
    ["", "[user]\nname = a\\nb\n", "[user]\nname\n", "[user\nname = Ann\n", "\0\n", "name = Ann\n", LONG],
)
def test_what_is_no_name_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(text)
    assert Identity.of({"HOME": os.fspath(tmp_path)}, None) == Identity()


def test_it_is_bound(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(FILES[0])
    known = Surroundings.of({"HOME": os.fspath(tmp_path)}, tmp_path)

    assert known.values["author"][""] == "Ann Example"
    assert known.values["email"][""] == "ann@example.com"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_a_pipe_does_not_hold_anybody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitconfig")
    assert Identity.of({"HOME": os.fspath(tmp_path)}, None) == Identity()
