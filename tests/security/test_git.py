"""Git in a repository of a stranger: no code of the work tree runs, and no command that a config names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.store.fixture import Answer
from cortex_replay.store.git import process as git_process
from cortex_replay.store.git.repository import Repository
from cortex_replay.store.git.staging import check_staged
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.repositories import Project

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
    git(root, "add", "-A", "-f", "--", ".", ":(exclude,glob)**/.cortex-replay/**")
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
    assert answers(project) == {"ours", "theirs"}


@pytest.mark.parametrize("path", [".", "", ":/nowhere"])
def test_a_search_path_of_the_shell_leads_no_merge_into_the_work_tree(
    project: Path, marker: Path, path: str
) -> None:
    """``PYTHONPATH=.`` is what many set for their tests."""
    plant(project, marker, SHADOWS)
    git(project, "merge", "-q", "main", PYTHONPATH=path, PYTHONSTARTUP="click.py", PYTHONHOME="")

    assert not marker.exists()
    assert answers(project) == {"ours", "theirs"}


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


def test_looking_for_a_lost_file_in_git_runs_nothing(project: Path, marker: Path) -> None:
    """In a repository whose configuration names programs, and behind a commit that no longer has it."""
    lost = next(iter((project / "fixtures").rglob("*.json")))
    data = lost.read_bytes()
    git(project, "rm", "-q", str(lost))
    git(project, "commit", "-q", "-m", "lost")
    git(project, "commit", "-q", "--allow-empty", "-m", "later")
    git(project, "commit", "-q", "--allow-empty", "-m", "later still")
    hostile_config(project / ".git", marker)

    assert run("resolve", "--store", project)[0] == 0
    assert lost.read_bytes() == data
    assert not marker.exists()


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


@pytest.mark.parametrize(
    "variable", ["GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_SSH"]
)
def test_no_variable_names_a_program(
    builder: StoreBuilder, marker: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """``git -c`` hands its settings on to hooks."""
    program = marker.parent / "program"
    program.write_text(f"#!/bin/sh\necho ran >> '{marker}'\n")
    program.chmod(0o755)
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    values = {"GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{program}'", "GIT_CONFIG_COUNT": "1"}
    monkeypatch.setenv(variable, values.get(variable, str(program)))
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(program))
    all_commands_of_git(builder.root)

    assert not marker.exists()


def test_a_trace_is_written_for_nobody(
    builder: StoreBuilder, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(builder.root, "init", "-q")
    for name in ("GIT_TRACE", "GIT_TRACE2", "GIT_TRACE_SETUP"):
        monkeypatch.setenv(name, str(marker))
    all_commands_of_git(builder.root)

    assert not marker.exists()


def test_a_partial_clone_fetches_nothing(builder: StoreBuilder, marker: Path) -> None:
    """Git would run ``remote.x.uploadpack`` for a blob that it lacks, whatever allows protocols."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    index = git(builder.root, "rev-parse", "HEAD:INDEX.toml").strip()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "x",
        "remote.x.url": str(marker.parent),
        "remote.x.promisor": "true",
        "remote.x.uploadpack": f"echo ran >> '{marker}'; true",
        "protocol.allow": "always",
        "protocol.file.allow": "always",
    }.items():
        git(builder.root, "config", name, value)
    blob = builder.root / ".git/objects" / index[:2] / index[2:]
    blob.unlink()
    staged = run("verify", "--staged", "--store", builder.root)
    base = run("verify", "--base", "HEAD", "--store", builder.root)

    assert not marker.exists()
    assert staged[0] == 5
    assert base[0] == 1
    assert f"git cat-file -e {index}" in base[1]


@pytest.mark.parametrize("reference", ["--help", "-x", "--output=x", "--git-dir=.", "x\ny", "HEAD\x1b[31m"])
def test_a_reference_is_never_an_option(builder: StoreBuilder, reference: str) -> None:
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    status, said = run("verify", f"--base={reference}", "--store", builder.root)

    assert status == 1
    assert "names no commit" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("path", [".", "", "bin", "{root}/bin"])
def test_a_git_of_the_work_tree_is_not_run(
    builder: StoreBuilder, marker: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Whether PATH has a relative entry, or one that leads into the work tree."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    for folder in (builder.root, builder.root / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "git").write_text(f"#!/bin/sh\necho ran >> '{marker}'\n")
        (folder / "git").chmod(0o755)
    monkeypatch.chdir(builder.root)
    monkeypatch.setenv("PATH", f"{path.format(root=builder.root)}{os.pathsep}{os.environ['PATH']}")

    assert run("verify", "--staged") == (0, "")
    assert not marker.exists()


def test_a_git_of_the_current_folder_is_not_run(
    builder: StoreBuilder, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the store is."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    here = tmp_path / "here"
    here.mkdir()
    (here / "git").write_text(f"#!/bin/sh\necho ran >> '{marker}'\n")
    (here / "git").chmod(0o755)
    monkeypatch.chdir(here)
    for path in (".", "", "../here"):
        monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
        assert run("verify", "--staged", "--store", builder.root) == (0, "")

    assert not marker.exists()


def test_a_git_that_never_answers_is_ended(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive may hold a pipe."""
    monkeypatch.setattr(git_process, "SECONDS", 0.5)
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    (builder.root / ".git/index").unlink()
    os.mkfifo(builder.root / ".git/index")
    status, said = run("verify", "--staged", "--store", builder.root)

    assert status == 1
    assert "no answer" in said


def test_a_blob_that_never_comes_is_given_up(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "SECONDS", 0.5)
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    name = git(builder.root, "rev-parse", "HEAD:INDEX.toml").strip()
    blob = builder.root / ".git/objects" / name[:2] / name[2:]
    blob.unlink()
    os.mkfifo(blob)
    status, said = run("verify", "--staged", "--store", builder.root)

    assert status == 1
    assert "no answer" in said


def test_a_git_that_says_too_much_is_ended(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "MAX_OUTPUT", 100)
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    status, said = run("verify", "--staged", "--store", builder.root)

    assert status == 1
    assert "more than 100 bytes" in said


def test_a_huge_blob_is_not_read_to_its_end(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those behind it are read all the same."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    huge = next(iter(builder.files))
    (builder.root / huge).write_bytes(b"\0" * 2**27)
    git(builder.root, "add", "-A")
    wanted: list[int] = []
    answer = git_process._answer

    def count(pipe: Any, max_bytes: int) -> Any:
        def read(size: int) -> bytes:
            wanted.append(size)
            return bytes(pipe.read(size))

        counted: Any = SimpleNamespace(readline=pipe.readline, read=read)
        return answer(counted, max_bytes)

    monkeypatch.setattr(git_process, "_answer", count)
    report = check_staged(builder.root)

    assert [finding.code for finding in report.findings] == ["too-large"]
    assert report.files_checked == 2
    assert wanted
    assert sum(wanted) < 2**20


def test_only_a_few_subcommands_are_run(builder: StoreBuilder) -> None:
    """Others run filters, differs, hooks or editors."""
    git(builder.root, "init", "-q")
    with pytest.raises(ValueError, match="may run programs"):
        Repository(builder.root).run("diff", "--cached")


def test_only_a_few_modules_start_a_process() -> None:
    """A new call of git, or of anything, goes through one of them."""
    package = Path(git_process.__file__).parents[2]
    starts = re.compile(
        r"\bsubprocess\b|\bos\.(system|popen|exec|spawn|posix_spawn|fork|startfile)|\bpty\b|\bwhich\("
    )
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if starts.search(line.partition("#")[0]) and not line.lstrip().startswith('"""')
    }

    of_users = {"cli/command_run.py", "cli/learn.py", "cli/sweep.py", "cli/timed_command.py"}
    of_mcp = {"run/mcp/stdio/process.py", "cli/mcp.py", "shim.py"}  # a client's server, itself, ps on macOS
    of_stores = {"store/git/process.py", "store/git/merge_driver.py", "store/signing/ssh.py"}
    assert found == {*of_stores, *of_users, *of_mcp}


@pytest.mark.parametrize("how", ["worktree", "submodule", "separate", "linked"])
def test_a_repository_that_is_elsewhere_works(builder: StoreBuilder, tmp_path: Path, how: str) -> None:
    """Of a worktree, of a submodule, by ``--separate-git-dir``, behind a link."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    place = builder.root
    if how == "worktree":
        place = tmp_path / "other"
        git(builder.root, "worktree", "add", "-q", str(place))
    elif how == "submodule":
        git(tmp_path, "init", "-q", "super")
        git(
            tmp_path / "super",
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            str(place),
            "sub",
        )
        place = tmp_path / "super/sub"
    elif how == "separate":
        git(place, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    else:
        (place / ".git").rename(tmp_path / "apart")
        (place / ".git").symlink_to(tmp_path / "apart")

    assert run("verify", "--staged", "--base", "HEAD", "--store", place) == (0, "")
    assert run("init", "--driver-only", "--store", place)[0] == 0
    assert "-I" in git(place, "config", "merge.cortex-replay.driver")


@pytest.mark.parametrize("how", ["file", "link", "absolute"])
def test_a_repository_within_the_work_tree_is_refused(builder: StoreBuilder, marker: Path, how: str) -> None:
    """There a commit could put anything."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    (builder.root / ".git").rename(builder.root / "planted")
    hostile_config(builder.root / "planted", marker)
    if how == "link":
        (builder.root / ".git").symlink_to("planted")
    else:
        place = "planted" if how == "file" else builder.root / "planted"
        (builder.root / ".git").write_text(f"gitdir: {place}\n")
    status, said = run("verify", "--staged", "--store", builder.root)
    all_commands_of_git(builder.root)

    assert status == 1
    assert "part of the work tree" in said
    assert not marker.exists()


@pytest.mark.parametrize(
    "content", ["", "gitdir: \0", "gitdir: nowhere\n", "nonsense\n", "gitdir: /dev/zero\n"]
)
def test_a_file_that_names_no_repository_is_refused(builder: StoreBuilder, content: str) -> None:
    (builder.root / ".git").write_text(content)
    status, said = run("verify", "--staged", "--store", builder.root)

    assert status == 1
    assert said.startswith("error: ")


def test_a_folder_that_is_called_git_and_is_none_is_passed_over(
    builder: StoreBuilder, tmp_path: Path
) -> None:
    """As git does."""
    git(tmp_path, "init", "-q")
    commit(tmp_path, "base")
    (builder.root / ".git").mkdir()

    assert run("verify", "--staged", "--store", builder.root) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_repository_of_another_user(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is refused by git, unless the user says that it is safe; also by a variable, as in containers."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    for path in (builder.root, *builder.root.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    status, said = run("verify", "--staged", "--store", builder.root)
    assert status == 1
    assert "safe.directory" in said

    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(builder.root))
    assert run("verify", "--staged", "--store", builder.root) == (0, "")


def test_a_hook_of_another_repository_is_not_asked_about(
    builder: StoreBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index that a hook is told of belongs to the repository that it runs in."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    git(tmp_path, "init", "-q", "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")

    assert run("verify", "--staged", "--store", builder.root) == (0, "")


@pytest.mark.parametrize("place", ["clone", "worktree"])
def test_a_real_hook_over_a_store_that_looks_like_a_repository(
    builder: StoreBuilder, tmp_path: Path, marker: Path, place: str
) -> None:
    """Git tells its hooks by variables which index is committed; in a worktree also which repository."""
    lay_out_as_bare(builder.root)
    hostile_config(builder.root, marker)
    git(tmp_path, "init", "-q")
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m cortex_replay verify --staged --store store\n"
    )
    hook.chmod(0o755)
    git(tmp_path, "add", "store")
    git(tmp_path, "commit", "-q", "-m", "hostile")
    top = tmp_path
    if place == "worktree":
        top = tmp_path / "other"
        git(tmp_path, "worktree", "add", "-q", str(top))
    (top / "store" / next(iter(builder.files))).write_bytes(b"{}")
    said = git(top, "commit", "-q", "-a", "-m", "changed", fails=True)

    assert "[mismatch]" in said
    assert not marker.exists(), marker.read_text()


@pytest.mark.parametrize(("name", "value"), [("core.bare", "true"), ("core.worktree", "/nowhere")])
def test_no_setting_moves_the_work_tree(builder: StoreBuilder, name: str, value: str) -> None:
    """The rules for ignored files are those beside the store."""
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    git(builder.root, "config", name, value)
    (builder.root / ".gitignore").write_text("*.json\n")
    builder.add("What is three?", "Three.")
    builder.write()

    assert [finding.code for finding in check_staged(builder.root).findings] == ["ignored"]


@pytest.fixture(scope="module")
def three_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a store in which each commit has another answer, and so has the working tree."""
    project = Project(tmp_path_factory.mktemp("commits"))
    for answer in ("one", "two", "three"):
        project.record(ask("Count."), Answer(answer))
        project.commit(answer)
    project.record(ask("Count."), Answer("four"))
    return project.root


@pytest.mark.parametrize("sides", [["HEAD"], ["HEAD~1", "HEAD"], ["HEAD~1..HEAD"], ["HEAD~1...HEAD"]])
def test_diff_runs_nothing_and_reads_what_was_committed(
    three_commits: Path, tmp_path: Path, marker: Path, sides: list[str]
) -> None:
    """With programs wherever git would start one, and a commit that another is put in the place of."""
    root = tmp_path / "project"
    shutil.copytree(three_commits, root, symlinks=True)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    clean = run("diff", *sides, "--store", root / "llm", "--json")
    first, *others = reversed(git(root, "rev-list", "HEAD").split())
    for other in others:
        git(root, "replace", other, first)
    (root / ".git/info/attributes").write_text("* diff=x filter=x\n")
    named = ("core.fsmonitor", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.process")
    for name in (*named, "core.sshCommand", "core.alternateRefsCommand"):
        git(root, "config", name, str(program))
    for name, value in (("promisor", "true"), ("url", f"ext::{program}")):
        git(root, "config", f"remote.origin.{name}", value)
    git(root, "config", "protocol.ext.allow", "always")
    marker.unlink(missing_ok=True)

    assert run("diff", *sides, "--store", root / "llm", "--json") == clean
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["--output=x", "HEAD..--all", "HEAD...-x", "HEAD\n--x", "\x1b[31m", "HEAD\0"]
)
def test_what_looks_like_an_option_is_no_commit(three_commits: Path, name: str) -> None:
    status, said = run("diff", "--store", three_commits / "llm", "--", name)

    assert status == 1
    assert "names no commit" in said
    assert "\x1b" not in said
    assert not (three_commits / "x").exists()
