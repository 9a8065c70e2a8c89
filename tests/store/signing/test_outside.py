"""A list of signers comes from outside of the tree that it judges."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortex_replay.errors import ConfigError
from cortex_replay.store.signing.outside import MAX_SIGNERS_BYTES, check_outside, read_signers, tree_of
from tests.signing import write_signers


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The store of a repository."""
    store = tmp_path / "project/tests/llm"
    store.mkdir(parents=True)
    for name in ("objects", "refs"):
        (tmp_path / "project/.git" / name).mkdir(parents=True)
    (tmp_path / "project/.git/HEAD").write_text("ref: refs/heads/main\n")
    return store


def test_a_list_from_elsewhere_is_read(root: Path, tmp_path: Path) -> None:
    signers = write_signers(tmp_path / "signers", "alice key\n")
    (tmp_path / "link").symlink_to(signers)

    assert read_signers(signers, root) == b"alice key\n"
    assert read_signers(tmp_path / "link", root) == b"alice key\n"


@pytest.mark.parametrize(
    "place", ["project/signers", "project/tests/llm/signers", "project/.git/signers", "project/other/signers"]
)
def test_a_list_in_the_tree_is_refused(root: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    signers = write_signers(tmp_path / place)

    with pytest.raises(ConfigError, match="the tree that it is to judge"):
        read_signers(signers, root)


def test_a_list_in_the_tree_is_refused_by_its_relative_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_signers(tmp_path / "project/signers")
    monkeypatch.chdir(root)

    for name in ("../../signers", "../../../project/./signers", f"{tmp_path}/other/../project/signers"):
        with pytest.raises(ConfigError, match="the tree that it is to judge"):
            read_signers(Path(name), Path())


def test_no_link_of_the_tree_leads_to_a_list(root: Path, tmp_path: Path) -> None:
    """Who changes the tree chooses where it leads; also where it is one of several on the way."""
    outside = tmp_path / "home"
    outside.mkdir()
    write_signers(outside / "signers")
    (tmp_path / "project/link").symlink_to(outside / "signers")
    (tmp_path / "project/folder").symlink_to(outside)
    (tmp_path / "into").symlink_to(tmp_path / "project/link")
    (outside / "back").symlink_to("../project/folder/signers")

    for name in ("project/link", "project/folder/signers", "into", "home/back"):
        with pytest.raises(ConfigError, match="the tree that it is to judge"):
            read_signers(tmp_path / name, root)


def test_a_link_into_the_tree_is_refused(root: Path, tmp_path: Path) -> None:
    write_signers(tmp_path / "project/signers")
    (tmp_path / "signers").symlink_to(tmp_path / "project/signers")

    with pytest.raises(ConfigError, match="the tree that it is to judge"):
        read_signers(tmp_path / "signers", root)


def test_a_store_that_is_reached_by_a_link_has_two_trees(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/pyproject.toml").touch()
    (tmp_path / "other/llm").symlink_to(root)
    write_signers(tmp_path / "other/signers")
    write_signers(tmp_path / "project/signers")

    for place in ("other", "project"):
        with pytest.raises(ConfigError, match="the tree that it is to judge"):
            read_signers(tmp_path / place / "signers", tmp_path / "other/llm")


def test_links_that_lead_round_are_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(ConfigError, match="symbolic links"):
        check_outside(tmp_path / "a", root, "--signers")


def test_the_tree_is_the_project(root: Path, tmp_path: Path) -> None:
    assert tree_of(root) == tmp_path / "project"
    plain = tmp_path / "plain/llm"
    plain.mkdir(parents=True)
    assert tree_of(plain) == plain
    (tmp_path / "plain/cortex-replay.toml").touch()
    assert tree_of(plain) == tmp_path / "plain"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_list_that_others_may_write_is_refused(root: Path, tmp_path: Path, mode: int) -> None:
    signers = write_signers(tmp_path / "signers")
    signers.chmod(mode)

    with pytest.raises(ConfigError, match="chmod go-w"):
        read_signers(signers, root)


def test_a_list_in_a_folder_of_others_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    signers = write_signers(tmp_path / "shared/signers")
    (tmp_path / "shared").chmod(0o777)

    with pytest.raises(ConfigError, match="others may put another file in the place"):
        read_signers(signers, root)
    (tmp_path / "shared").chmod(0o1777)  # as /tmp: files are their owners'
    assert read_signers(signers, root) == b""


def test_a_list_of_another_user_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signers = write_signers(tmp_path / "signers")
    owner = signers.stat().st_uid
    if owner == 0:
        if not hasattr(os, "chown"):
            pytest.skip("no owners here")
        os.chown(signers, 4321, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)

    with pytest.raises(ConfigError, match="belongs to another user"):
        read_signers(signers, root)


def test_what_is_no_file_is_refused(root: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "large").write_bytes(b"#" * (MAX_SIGNERS_BYTES + 1))

    for name, reason in (("missing", "No such file"), ("pipe", "not a plain file"), ("large", "larger than")):
        with pytest.raises(ConfigError, match=reason):
            read_signers(tmp_path / name, root)
