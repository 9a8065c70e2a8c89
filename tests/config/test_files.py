"""Which file holds, and which is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cortex_replay.config.files import MAX_BYTES, find_config
from cortex_replay.errors import ConfigError
from tests.config.conftest import Project

OURS = '[tool.cortex-replay]\nmodel = "m"\n'
OTHERS = "[tool.black]\nline-length = 80\n"


def found(start: Path) -> str | None:
    file = find_config(start)
    return None if file is None else file.shown


def refused(start: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        find_config(start)
    return caught.value


def test_the_nearest_file_holds(project: Project) -> None:
    """Going up, each of the two names is as good as the other."""
    project.write('model = "top"')
    (project.root / "a/b/c").mkdir(parents=True)
    assert found(project.root / "a/b/c") == "cortex-replay.toml"

    project.write(OURS, "a/pyproject.toml")
    assert found(project.root / "a/b/c") == "a/pyproject.toml"
    assert found(project.root) == "cortex-replay.toml"

    project.write(OTHERS, "a/b/pyproject.toml")
    assert found(project.root / "a/b/c") == "a/pyproject.toml"


def test_a_folder_that_is_not_there_yet(project: Project) -> None:
    """As a store that will be made."""
    project.write(OURS, "pyproject.toml")

    assert found(project.root / "not/yet") == "pyproject.toml"


def test_paths_are_shown_from_here(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they can be opened."""
    project.write(OURS, "pyproject.toml")
    (project.root / "a").mkdir()
    monkeypatch.chdir(project.root / "a")

    assert found(Path()) == "../pyproject.toml"


@pytest.mark.parametrize("is_worktree", [False, True])
def test_the_search_ends_at_the_top_of_a_repository(project: Project, is_worktree: bool) -> None:
    """``.git`` is a folder, or a file in a worktree or submodule."""
    project.write(OURS, "pyproject.toml")
    inner = project.root / "inner"
    inner.mkdir()
    if is_worktree:
        (inner / ".git").write_text("gitdir: elsewhere")
    else:
        (inner / ".git").mkdir()

    assert found(inner) is None
    (inner / "pyproject.toml").write_text(OURS)
    assert found(inner) == "inner/pyproject.toml"


def test_two_files_in_one_folder(project: Project) -> None:
    """Nobody could say which holds. An empty one says nothing, and so does not contradict."""
    project.write(OURS, "pyproject.toml")
    project.write("jobs = 2")
    error = refused(project.root)
    assert error.field == "cortex-replay.toml"
    assert "pyproject.toml has settings too" in error.reason

    project.write("# nothing\n")
    assert found(project.root) == "pyproject.toml"
    project.write(OTHERS, "pyproject.toml")
    assert found(project.root) == "cortex-replay.toml"


def test_an_empty_file_ends_the_search(project: Project) -> None:
    """So that a part of a project can have none of the settings above it."""
    project.write(OURS, "pyproject.toml")
    project.write("", "part/cortex-replay.toml")

    assert found(project.root / "part") == "part/cortex-replay.toml"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"mode = ", "is not TOML"),
        (b"mode = 'a'\nmode = 'b'", "is not TOML"),
        (b"\xff", "is not UTF-8"),
        (b"\xef\xbb\xbfjobs = 1", "byte order mark"),
        (b"a = " + b"[" * 100_000, "nested more than 16 deep"),
        (b"#" * (MAX_BYTES + 1), f"is larger than {MAX_BYTES} bytes"),
        (b"a." * 400_000 + b"a = 1", "more than 12 parts"),
        (b"[tool.cortex-replay]\njobs = 1", "that table is for pyproject.toml"),
    ],
)
def test_a_file_that_is_no_configuration(project: Project, content: bytes, reason: str) -> None:
    """Is refused with its name, before anybody parses it."""
    (project.root / "cortex-replay.toml").write_bytes(content)
    error = refused(project.root)

    assert error.field.startswith("cortex-replay.toml")
    assert reason in error.reason


def test_a_broken_pyproject_counts_only_if_it_is_about_us(project: Project) -> None:
    """Others will complain about it."""
    project.write("[tool.black\n", "pyproject.toml")
    assert found(project.root) is None

    project.write("[tool.cortex-replay\n", "pyproject.toml")
    assert "is not TOML" in refused(project.root).reason
    project.write("[tool]\ncortex-replay = 1\n", "pyproject.toml")
    assert (refused(project.root).field, refused(project.root).reason) == (
        "pyproject.toml: tool.cortex-replay",
        "expected a table",
    )
    project.write('tool = "cortex-replay"\n', "pyproject.toml")
    assert found(project.root) is None


def test_settings_are_not_read_through_a_link(project: Project, tmp_path: Path) -> None:
    """The paths in them would be relative to one folder or to another."""
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(OURS)
    (project.root / "pyproject.toml").symlink_to(elsewhere)
    assert "symbolic link" in refused(project.root).reason

    elsewhere.write_text(OTHERS)
    assert found(project.root) is None  # not ours to complain about
    elsewhere.unlink()
    assert found(project.root) is None

    (project.root / "cortex-replay.toml").symlink_to(elsewhere)
    assert "symbolic link" in refused(project.root).reason
    elsewhere.write_text("")
    assert "symbolic link" in refused(project.root).reason


@pytest.mark.parametrize("name", ["cortex-replay.toml", "pyproject.toml"])
def test_what_is_no_file_is_refused(project: Project, name: str) -> None:
    """Neither a folder nor a pipe, which would never end."""
    path = project.root / name
    path.mkdir()
    assert refused(project.root).reason == "is not a regular file"
    path.rmdir()
    os.mkfifo(path)
    assert refused(project.root).reason == "is not a regular file"


def test_a_file_that_cannot_be_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passing over it would give other keys than a colleague gets."""
    project.write("jobs = 1").chmod(0)

    def closed(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", closed)  # root could open it
    assert refused(project.root).reason == "cannot be read: Permission denied"


def test_a_link_in_a_circle(project: Project) -> None:
    """Is refused like any file that cannot be read."""
    (project.root / "pyproject.toml").symlink_to("pyproject.toml")

    assert "cannot be read" in refused(project.root).reason


def test_a_file_that_somebody_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder such as /tmp everybody can put a file that names a server for our keys."""
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (shared / "cortex-replay.toml").write_text("jobs = 1")
    if os.geteuid() == 0:  # whose files are trusted
        os.chown(shared / "cortex-replay.toml", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert found(shared / "mine") is not None

    shared.chmod(0o1777)
    assert found(shared / "mine") is None
    shared.chmod(0o1755)
    assert found(shared / "mine") is not None


def test_a_start_that_cannot_be_resolved(project: Project) -> None:
    """As a name with a zero byte."""
    assert refused(Path("a\0b")).reason == "settings cannot be looked for there"


def test_no_descriptor_is_left_open(project: Project) -> None:
    """Whatever was found."""
    if not sys.platform.startswith("linux"):
        pytest.skip("no /proc")
    (project.root / "cortex-replay.toml").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        refused(project.root)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
