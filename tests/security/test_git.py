"""Git in a repository of a stranger: no code of the work tree runs, and no command that a config names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.store.fixture import Answer
from tests.builder import StoreBuilder, ask, fixture_of

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]
SHADOWS = [
    "cortex_replay/__init__.py",
    "click.py",
    "json.py",
    "blake3.py",
    "orjson.py",
    "httpx.py",
    "tomllib.py",
    "shlex.py",
    "sitecustomize.py",
    "usercustomize.py",
    "encodings/__init__.py",
]
COMMANDS = {
    "core.fsmonitor": "{script}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{script}",
    "core.editor": "{script}",
    "core.sshCommand": "{script}",
    "core.askPass": "{script}",
    "core.alternateRefsCommand": "{script}",
    "diff.external": "{script}",
    "diff.x.textconv": "{script}",
    "filter.x.clean": "{script}",
    "filter.x.smudge": "{script}",
    "filter.x.process": "{script}",
    "credential.helper": "{script}",
    "gpg.program": "{script}",
    "alias.rev-parse": "!{script}",
    "alias.ls-files": "!{script}",
    "pager.config": "{script}",
    "merge.cortex-replay.driver": "{script} -m cortex_replay merge-driver %O %A %B %P",
}


def git(root: Path, *arguments: str, fails: bool | None = False, **environment: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert fails in (None, done.returncode != 0), done.stdout + done.stderr
    return done.stdout + done.stderr


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def commit(root: Path, message: str) -> None:
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", message)


def record(root: Path, question: str) -> None:
    store = Store.open(root)
    store.replace(fixture_of(ask(question), Answer(question)))
    store.commit()


@pytest.fixture(scope="module")
def two_branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a branch of ours and one of theirs, which both changed the index."""
    root = tmp_path_factory.mktemp("project")
    git(root, "init", "-q")
    assert run("init", "--store", root)[0] == 0
    git(root, "config", "--remove-section", "merge.cortex-replay")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "base")
    git(root, "checkout", "-q", "-b", "theirs")
    record(root, "theirs")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "theirs")
    git(root, "checkout", "-q", "main")
    record(root, "ours")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "ours")
    return root


@pytest.fixture
def project(two_branches: Path, tmp_path: Path) -> Path:
    """A copy with the driver that ``init`` tells git of."""
    root = tmp_path / "project"
    shutil.copytree(two_branches, root, symlinks=True)
    assert run("init", "--driver-only", "--store", root)[0] == 0
    return root


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """The file that is there once a stranger's code has run."""
    return tmp_path / "ran"


def plant(root: Path, marker: Path, names: list[str]) -> None:
    """A branch of a stranger, checked out to have a look."""
    git(root, "checkout", "-q", "theirs")
    for name in names:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import os\nos.close(os.open({str(marker)!r}, os.O_CREAT | os.O_WRONLY))\n")
    commit(root, "hostile")


def answers(root: Path) -> set[str]:
    store = Store.open(root)
    return {store.get(item.model, item.prompt_hash).answers[0].text for item in store.list()}


@pytest.mark.parametrize("name", SHADOWS)
def test_a_merge_runs_no_module_of_the_work_tree(project: Path, marker: Path, name: str) -> None:
    plant(project, marker, [name])
    git(project, "merge", "-q", "main")

    assert not marker.exists()
    assert answers(project) == {"Hello!", "ours", "theirs"}


@pytest.mark.parametrize("path", [".", "", ":/nowhere"])
def test_a_search_path_of_the_shell_leads_no_merge_into_the_work_tree(
    project: Path, marker: Path, path: str
) -> None:
    """``PYTHONPATH=.`` is what many set for their tests."""
    plant(project, marker, SHADOWS)
    git(project, "merge", "-q", "main", PYTHONPATH=path, PYTHONSTARTUP="click.py", PYTHONHOME="")

    assert not marker.exists()
    assert answers(project) == {"Hello!", "ours", "theirs"}


def hostile_config(folder: Path, marker: Path) -> None:
    """Settings that name a program, in a file that git takes for its configuration."""
    programs = marker.parent / "programs"
    programs.mkdir(exist_ok=True)

    def program(name: str) -> Path:
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> '{marker}'\n")
        (programs / name).chmod(0o755)
        return programs / name

    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout", "fsmonitor"):
        program(hook)
    for name, value in COMMANDS.items():
        text = value.format(script=program(name), hooks=programs)
        git(marker.parent, "config", "--file", str(folder / "config"), name, text)


def lay_out_as_bare(folder: Path) -> None:
    """What a commit can hold of a repository without a work tree."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "x").write_text("")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n")


def all_commands_of_git(store: Path) -> str:
    """Whatever of ours calls git."""
    said = ""
    for words in (
        ("verify", "--staged", "--store", store),
        ("verify", "--base", "HEAD", "--store", store),
        ("verify", "--store", store),
        ("init", "--driver-only", "--store", store),
        ("init", "--store", store / "another"),
    ):
        said += run(*words)[1]
    return said


def test_a_store_that_looks_like_a_repository_runs_nothing(
    builder: StoreBuilder, tmp_path: Path, marker: Path
) -> None:
    """Git takes a folder with HEAD, objects and refs for a repository, and believes its config."""
    lay_out_as_bare(builder.root)
    hostile_config(builder.root, marker)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A", "-f")
    git(tmp_path, "commit", "-q", "-m", "hostile")
    all_commands_of_git(builder.root)

    assert not marker.exists(), marker.read_text()
    assert run("verify", "--staged", "--store", builder.root) == (0, "")


def test_the_config_of_an_unpacked_archive_names_a_program_in_vain(
    builder: StoreBuilder, marker: Path
) -> None:
    """A clone brings no ``.git/config``, a tarball may; at least we run nothing that it names."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    (builder.root / ".git/info").mkdir(exist_ok=True)
    (builder.root / ".git/info/attributes").write_text("* filter=x diff=x\n")
    hostile_config(builder.root / ".git", marker)
    all_commands_of_git(builder.root)

    assert not marker.exists(), marker.read_text()
