"""``verify --staged``, in real git repositories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.errors import Finding
from cortex_replay.store.git.staging import check_staged
from tests.builder import StoreBuilder

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(params=["top", "below"])
def repository(builder: StoreBuilder, tmp_path: Path, request: pytest.FixtureRequest) -> StoreBuilder:
    """A committed store, at the top of its repository or in a folder of it."""
    top = builder.root if request.param == "top" else tmp_path
    git(top, "init")
    git(top, "add", ".")
    git(top, "commit", "-m", "base")
    return builder


def findings(builder: StoreBuilder) -> list[Finding]:
    return check_staged(builder.root).findings


def test_a_committed_store_is_fine(repository: StoreBuilder) -> None:
    """Nothing to say."""
    report = check_staged(repository.root)

    assert report.findings == []
    assert report.files_checked == 2


def test_a_listed_file_that_git_does_not_track(repository: StoreBuilder) -> None:
    """Whether its index is staged already or not."""
    path = repository.add("What is three?", "Three.")
    repository.write()
    for stage in (False, True):
        if stage:
            git(repository.root, "add", "INDEX.toml")
        (finding,) = findings(repository)
        assert ("untracked", path) == (finding.code, finding.path)
        assert finding.hint is not None
        assert finding.hint.startswith("git add ")
        assert finding.hint.endswith(path)
    git(repository.root, "add", path)
    assert findings(repository) == []


def test_a_listed_file_that_git_ignores(repository: StoreBuilder) -> None:
    """The rule that hides it is named."""
    (repository.root / ".gitignore").write_text("*.json\n")
    path = repository.add("What is three?", "Three.")
    repository.write()
    git(repository.root, "add", ".")
    (finding,) = findings(repository)

    assert ("ignored", path) == (finding.code, finding.path)
    assert ".gitignore:1: *.json" in finding.reason


def test_nothing_is_tracked_yet(builder: StoreBuilder) -> None:
    """The index itself is the first thing that is missing."""
    git(builder.root, "init")
    codes = {finding.code for finding in findings(builder)}
    paths = {finding.path for finding in findings(builder)}

    assert {"untracked"} == codes
    assert {"INDEX.toml", *builder.files} == paths


def test_what_counts_is_what_is_staged(repository: StoreBuilder) -> None:
    """A change that is not staged is not committed; one that is, is looked at."""
    path = repository.root / next(iter(repository.files))
    good = path.read_bytes()
    path.write_bytes(good.replace(b"One.", b"Two!"))
    assert findings(repository) == []

    git(repository.root, "add", ".")
    path.write_bytes(good)
    assert [finding.code for finding in findings(repository)] == ["mismatch"]


def test_an_unlisted_file_counts_only_when_it_is_staged(repository: StoreBuilder) -> None:
    """A half-finished recording does not stop an unrelated commit."""
    (repository.root / "fixtures/x.json").write_bytes(b"{}")
    assert findings(repository) == []

    git(repository.root, "add", ".")
    assert [finding.code for finding in findings(repository)] == ["unlisted"]


def test_a_link_in_the_repository(repository: StoreBuilder) -> None:
    """Is refused as on disk."""
    (repository.root / "fixtures/x.json").symlink_to("y")
    git(repository.root, "add", ".")

    assert [finding.code for finding in findings(repository)] == ["not-a-file"]


def test_a_rule_that_says_not_to_ignore_is_no_rule(repository: StoreBuilder) -> None:
    """Git lists the last rule that fits, also when it is a negation."""
    (repository.root / ".gitignore").write_text("*.json\n!fixtures/**/*.json\n")
    repository.add("What is three?", "Three.")
    repository.write()
    git(repository.root, "add", "INDEX.toml")

    assert [finding.code for finding in findings(repository)] == ["untracked"]


def test_an_unmerged_index(repository: StoreBuilder) -> None:
    """Is refused, whichever of its stages git would show."""
    leave_unmerged(repository.root, "INDEX.toml")

    assert "index-unreadable" in [finding.code for finding in findings(repository)]


def test_an_unmerged_fixture(repository: StoreBuilder) -> None:
    """Also if each of its stages has the bytes that are listed."""
    leave_unmerged(repository.root, next(iter(repository.files)))

    assert [finding.code for finding in findings(repository)] == ["not-a-file"]


def leave_unmerged(root: Path, path: str) -> None:
    blob = git(root, "hash-object", "-w", path).strip()
    prefix = git(root, "rev-parse", "--show-prefix").strip()
    lines = "".join(f"100644 {blob} {stage}\t{prefix}{path}\n" for stage in (1, 2, 3))
    git(root, "rm", "--cached", "-q", path)
    subprocess.run(["git", "update-index", "--index-info"], cwd=root, input=lines, text=True, check=True)


def test_a_submodule_in_the_place_of_a_fixture(repository: StoreBuilder) -> None:
    """Is no file, and no traceback."""
    prefix = git(repository.root, "rev-parse", "--show-prefix").strip()
    path = next(iter(repository.files))
    git(repository.root, "rm", "--cached", "-q", path)
    entry = f"160000,{'1' * 40},{prefix}{path}"
    git(repository.root, "update-index", "--add", "--cacheinfo", entry)

    assert [finding.code for finding in findings(repository)] == ["not-a-file"]


def test_content_that_git_has_lost(repository: StoreBuilder) -> None:
    """A blob that is staged and not there."""
    prefix = git(repository.root, "rev-parse", "--show-prefix").strip()
    path = next(iter(repository.files))
    entry = f"100644,{'1' * 40},{prefix}{path}"
    git(repository.root, "update-index", "--add", "--cacheinfo", entry)

    assert [finding.code for finding in findings(repository)] == ["unreadable"]


def test_a_path_that_git_refuses_to_look_at_hides_no_finding(repository: StoreBuilder) -> None:
    """The findings of the index come through."""
    text = repository.index_text() + f'\n[[fixture]]\npath = "../x.json"\nblake3 = "{"0" * 64}"\n'
    repository.write_index(text)
    git(repository.root, "add", "INDEX.toml")

    assert "path-unsafe" in [finding.code for finding in findings(repository)]


def test_a_folder_with_a_magic_name(builder: StoreBuilder, tmp_path: Path) -> None:
    """A store in ``:x`` is a store in ``:x``."""
    builder.root.rename(tmp_path / ":x")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")

    assert check_staged(tmp_path / ":x").findings == []


def test_outside_a_repository(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says so, with git's own words."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(builder.root.parent))
    with pytest.raises(StoreIo, match="not a git repository"):
        check_staged(builder.root)


def test_without_git(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says so too."""
    git(builder.root, "init")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StoreIo, match="git cannot be run"):
        check_staged(builder.root)


def test_as_a_git_hook(repository: StoreBuilder) -> None:
    """A real pre-commit hook, also of ``git commit FILE``, which uses an index of its own."""
    top = Path(git(repository.root, "rev-parse", "--show-toplevel").strip())
    hook = top / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    store = repository.root.relative_to(top.resolve())

    interpreter = sys.executable
    hook.write_text(f"#!/bin/sh\nexec '{interpreter}' -m cortex_replay verify --staged '{store}'\n")
    hook.chmod(0o755)
    path = repository.add("What is three?", "Three.")
    repository.write()
    git(repository.root, "add", "INDEX.toml")
    refused = subprocess.run(
        ["git", *IDENTITY, "commit", "-m", "three"],
        cwd=repository.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode
    assert "[untracked]" in refused.stdout + refused.stderr

    git(repository.root, "add", path)
    git(repository.root, "commit", "-m", "three")
    (top / "notes.txt").write_text("x")
    git(top, "add", "notes.txt")
    git(top, "commit", "notes.txt", "-m", "notes")


def test_a_clone_with_autocrlf_keeps_its_hashes(repository: StoreBuilder, tmp_path: Path) -> None:
    """Because .gitattributes is part of the format; without it the clone is refused with a hint."""
    top = Path(git(repository.root, "rev-parse", "--show-toplevel").strip())
    below = repository.root.relative_to(top.resolve())

    def clone(name: str) -> StoreBuilder:
        git(tmp_path, "-c", "core.autocrlf=true", "clone", str(top), str(tmp_path / name))
        return StoreBuilder(tmp_path / name / below)

    without = clone("without")
    assert "CRLF" in (without.findings()[0].hint or "")
    attributes = (Path(__file__).parents[3] / ".gitattributes").read_text()
    (repository.root / ".gitattributes").write_text(attributes)
    git(repository.root, "add", ".")
    git(repository.root, "commit", "-m", "attributes")
    assert clone("with").findings() == []
