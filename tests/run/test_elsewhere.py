"""Another place for a command: what comes along, what does not, and what is gone afterwards."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cortex_replay.errors import InvalidRequest
from cortex_replay.run import elsewhere as module
from cortex_replay.run.elsewhere import elsewhere, zone_of_another_day


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with tracked, new and ignored files, and with links."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "src/run").write_text("#!/bin/sh\n")
    (top / "src/run").chmod(0o755)
    (top / "new.txt").write_text("new")
    (top / ".gitignore").write_text("built/\n")
    (top / "built/deep").mkdir(parents=True)
    (top / "built/deep/tool").write_text("tool")
    (tmp_path / "secret").write_text("not for you")
    (top / "inside").symlink_to("src/run")
    (top / "outside").symlink_to(tmp_path / "secret")
    (top / "above").symlink_to("../secret")
    subprocess.run(["git", "init", "-q", top], check=True)
    subprocess.run(["git", "-C", top, "add", "src/run", "inside", "outside"], check=True)
    return top


def files_below(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    return {str(path) for path in found if path.parts[0] != ".git"}


def test_what_git_would_take_is_copied(project: Path) -> None:
    with elsewhere(project / "src", {"HOME": str(project.parent)}) as place:
        top = place.cwd.parent
        assert place.cwd.name == "src"
        assert files_below(top) == {".gitignore", "new.txt", "src/run", "inside"}
        assert os.access(top / "src/run", os.X_OK)
        assert (top / "inside").readlink() == Path("src/run")
        assert (top / ".git/HEAD").is_file()
        assert sorted(place.left_out) == [
            "above: a link that leads out of the directory",
            "outside: a link that leads out of the directory",
        ]
        status = subprocess.run(["git", "-C", top, "status", "--short"], check=True, capture_output=True)
        assert b"src/run" in status.stdout
    assert not top.exists()


def test_home_temporary_directory_and_day_are_others(project: Path) -> None:
    here = {"HOME": "/home/mia", "XDG_CONFIG_HOME": "/home/mia/.config", "OLDPWD": "/", "LANG": "C"}
    with elsewhere(project, here) as place:
        there = place.environment(here)
        home, temporary = Path(there["HOME"]), Path(there["TMPDIR"])
        assert list(home.iterdir()) == list(temporary.iterdir()) == []
        assert there["PWD"] == str(place.cwd)
        assert there["LANG"] == "C"
        assert not {"XDG_CONFIG_HOME", "OLDPWD"} & set(there)
        assert datetime.now(ZoneInfo(there["TZ"])).date() != datetime.now(UTC).astimezone().date()


@pytest.mark.parametrize("hour", range(0, 24, 3))
def test_it_is_another_day_there_at_any_hour(hour: int) -> None:
    now = datetime(2026, 11, 16, hour, 30, tzinfo=UTC)

    assert now.astimezone(ZoneInfo(zone_of_another_day(now))).date() != now.date()


def test_only_what_is_named_of_the_home_and_of_ignored_files_comes_along(
    project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".agent").mkdir(parents=True)
    (home / ".agent/config").write_text("config")
    (home / ".netrc").write_text("password")
    with elsewhere(project, {"HOME": str(home)}, home_files=[".agent"], also=["built"]) as place:
        assert files_below(Path(place.changes["HOME"])) == {".agent/config"}
        assert (place.cwd / "built/deep/tool").read_text() == "tool"


@pytest.mark.parametrize("path", ["nothing", "../secret", "/etc/passwd", "."])
def test_what_is_named_must_be_there(project: Path, path: str) -> None:
    with pytest.raises(InvalidRequest, match="there is no"), elsewhere(project, {}, also=[path]):
        pass


def test_a_directory_without_git_is_copied_whole(tmp_path: Path) -> None:
    (tmp_path / "work/deep").mkdir(parents=True)
    (tmp_path / "work/deep/a").write_text("a")
    with elsewhere(tmp_path / "work", {}, keeps=True) as place:
        assert files_below(place.cwd) == {"deep/a"}

    assert (place.cwd / "deep/a").is_file()


def test_what_is_too_large_is_refused_with_a_way_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 5)
    with pytest.raises(InvalidRequest, match="let git ignore"), elsewhere(project, {}):
        pass


@pytest.mark.parametrize("path", [".gitignore", "src/.gitignore", ".git/info/exclude"])
def test_git_does_not_wait_for_a_pipe(project: Path, path: str) -> None:
    (project / path).unlink(missing_ok=True)
    os.mkfifo(project / path)
    with pytest.raises(InvalidRequest, match="no plain file"), elsewhere(project, {}):
        pass


def test_a_link_in_the_way_is_not_followed(project: Path, tmp_path: Path) -> None:
    """Git may list what lies behind a link; nothing is read there, and nothing is written there."""
    (project / "folder").symlink_to(tmp_path)
    listed = "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\tfolder/secret\n"
    subprocess.run(["git", "-C", project, "update-index", "--index-info"], input=listed.encode(), check=True)
    with elsewhere(project, {}) as place:
        assert not os.path.lexists(place.cwd / "folder/secret")
        assert not os.path.lexists(place.cwd / "folder")


def test_the_repository_of_a_worktree_is_not_reached_from_the_copy(project: Path, tmp_path: Path) -> None:
    """A commit in the copy would be one in the original."""
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True)
    with elsewhere(tmp_path / "tree", {}) as place:
        assert (place.cwd / "src/run").is_file()
        assert not os.path.lexists(place.cwd / ".git")
