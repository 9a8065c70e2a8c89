"""No write follows a link, wherever on the way it stands."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay.disk import Folder, anchor_of, append_to, guarded_scratch, write_file


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a stranger filled, beside one that is the user's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("mine")
    root = tmp_path / "repository"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "file")
    (root / "dangling").symlink_to(tmp_path / "outside" / "new")
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("path", ["linked/file", "linked/new", "file", "dangling", "linked/deeper/new"])
@pytest.mark.parametrize("write", [write_file, append_to])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_path_through_a_link_is_refused(
    repository: Path, write: Callable[[Path, bytes], None], path: str, is_absolute: bool
) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - which one differs by step
        write(repository / path if is_absolute else Path(path), b"theirs")
    assert names_in(repository.parent / "outside") == ["file"]
    assert (repository.parent / "outside" / "file").read_text() == "mine"


@pytest.mark.parametrize("path", ["linked", "linked/new"])
def test_no_folder_is_made_through_a_link(repository: Path, path: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        Folder.reach(Path(path), make=True)
    assert names_in(repository.parent / "outside") == ["file"]


def test_links_above_the_repository_are_the_users_own(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(repository)
    os.chdir(tmp_path / "short")
    write_file(Path("a/b/report.json"), b"one", make_folder=True)
    write_file(tmp_path / "short" / "a" / "b" / "report.json", b"two")
    assert (repository / "a" / "b" / "report.json").read_bytes() == b"two"


def test_a_repository_elsewhere_is_no_more_trusted(repository: Path, tmp_path: Path) -> None:
    (repository / ".git").mkdir()
    os.chdir(tmp_path / "outside")
    assert anchor_of(repository / "linked" / "new") == repository
    with pytest.raises(OSError):  # noqa: PT011
        write_file(repository / "linked" / "new", b"theirs")


def test_another_repository_behind_a_link_is_no_anchor(repository: Path, tmp_path: Path) -> None:
    """Else a link to it would lead there."""
    (repository / ".git").mkdir()
    (tmp_path / "outside" / ".git").mkdir()
    os.chdir("/")
    assert anchor_of(repository / "linked" / "new") == repository
    with pytest.raises(OSError):  # noqa: PT011
        write_file(repository / "linked" / "new", b"theirs")


def test_a_tree_is_removed_without_what_its_links_lead_to(repository: Path) -> None:
    (repository / "tree").mkdir()
    (repository / "tree" / "link").symlink_to(repository.parent / "outside")
    with Folder.at(repository) as folder:
        folder.remove_tree("tree")
        with pytest.raises(OSError):  # noqa: PT011
            folder.remove_tree("linked")
    assert names_in(repository.parent / "outside") == ["file"]


def test_pipes_and_folders_are_no_files(repository: Path) -> None:
    os.mkfifo("pipe")
    with Folder.at(repository) as folder:
        for name in ("pipe", "linked"):
            with pytest.raises(OSError):  # noqa: PT011
                folder.read(name)
            with pytest.raises(OSError):  # noqa: PT011
                folder.append(name, b"x")
            with pytest.raises(OSError):  # noqa: PT011
                os.close(folder.open_private(name))


def test_a_refused_write_leaves_nothing_behind(repository: Path) -> None:
    (repository / "folder").mkdir()
    with pytest.raises(OSError):  # noqa: PT011
        write_file(Path("folder"), b"x")
    assert names_in(repository) == ["dangling", "file", "folder", "linked"]


def test_what_a_killed_process_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("dead", "link", "new")
    dead, link, new = (tmp_path / f"cortex-replay-guarded-{name}" for name in names)
    for folder in (dead, new, tmp_path / "elsewhere"):
        folder.mkdir(0o700)
        (folder / "secret").touch()
    for folder in (dead, tmp_path / "elsewhere"):
        (folder / "owner").touch()  # nobody holds its lock
    link.symlink_to(tmp_path / "elsewhere")

    with guarded_scratch() as first, guarded_scratch() as second:
        (first / "secret").touch()
        assert [folder.exists() for folder in (dead, link, new, first, second)] == [False, *[True] * 4]
    assert (tmp_path / "elsewhere" / "secret").exists()
    assert [folder.exists() for folder in (first, second)] == [False, False]


def test_a_private_file_with_another_name_elsewhere_is_refused(tmp_path: Path) -> None:
    """Who locks it, or writes over it, would do so there."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "state").mkdir()
    os.link(tmp_path / "mine", tmp_path / "state/lock")

    with Folder.at(tmp_path / "state") as folder, pytest.raises(OSError, match="hard link"):
        folder.open_private("lock")
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_a_short_write_leaves_is_written_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal, or a disk that is nearly full, may cut any write short."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    with Folder.at(tmp_path) as folder:
        folder.create("file", b"0123456789")
        folder.replace("other", b"0123456789", "temporary")

    assert [(tmp_path / name).read_bytes() for name in ("file", "other")] == [b"0123456789"] * 2


def test_a_file_that_cannot_be_written_whole_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(os, "write", refuse)
    with Folder.at(tmp_path) as folder, pytest.raises(OSError, match="the disk is full"):
        folder.create("file", b"0123456789")

    assert names_in(tmp_path) == []


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    """A page of recordings that is written again, into a file that others may not read."""
    private, new = tmp_path / "private.html", tmp_path / "new.html"
    private.touch(mode=0o600)
    for path in (private, new):
        write_file(path, b"words")
    before = os.umask(0)
    os.umask(before)

    assert private.read_bytes() == b"words"
    assert private.stat().st_mode & 0o777 == 0o600
    assert new.stat().st_mode & 0o777 == 0o644 & ~before
