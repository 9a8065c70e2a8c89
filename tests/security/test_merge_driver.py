"""The line that ``init`` gives git: what it runs in a work tree that a stranger filled."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import cortex_replay
from cortex_replay import Store
from cortex_replay.store.fixture import Answer
from cortex_replay.store.git.merge_driver import mend_driver
from tests.builder import StoreBuilder, ask, fixture_of
from tests.sampling import sample
from tests.security.test_git import IDENTITY, SHADOWS, answers, commit, git, record, run

DRIVER = "merge.cortex-replay.driver"
NEEDED = ("blake3", "click", "jsonschema_rs", "orjson", "tomli_w")
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with cortex-replay in it, as pip would install it."""
    root = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    package = Path(cortex_replay.__file__).parent
    shutil.copytree(package, root / SITE / "cortex_replay")
    for name in NEEDED:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (root / SITE / found.name).symlink_to(found)
    return root


def plant(path: Path, marker: Path, *, is_program: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    code = f"import os; os.close(os.open({str(marker)!r}, os.O_CREAT | os.O_WRONLY))\n"
    path.write_text(f"#!/bin/sh\necho ran > {shlex.quote(str(marker))}\n" if is_program else code)
    path.chmod(0o755)


class Project:
    """Two branches that both changed the index, and an environment, in the work tree or beside it."""

    def __init__(self, root: Path, environment: Path) -> None:
        self.root = root
        self.environment = environment
        git(root.parent, "init", "-q", str(root))
        assert run("init", "--store", root)[0] == 0
        (root / ".gitignore").write_text(".cortex-replay/\n.venv/\n")
        self._commit("base")
        git(root, "checkout", "-q", "-b", "theirs")
        record(root, "theirs")
        self._commit("theirs")
        git(root, "checkout", "-q", "main")
        record(root, "ours")
        self._commit("ours")
        git(root, "config", "--remove-section", "merge.cortex-replay")

    def _commit(self, message: str) -> None:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", message)

    def install(self, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """``init --driver-only``, by the Python of the environment."""
        command = [str(self.environment / "bin/python"), "-I", "-m", "cortex_replay", "init", "--driver-only"]
        return subprocess.run(command, cwd=folder or self.root, capture_output=True, text=True, check=False)

    def driver(self) -> str:
        return git(self.root, "config", DRIVER).strip()


@pytest.fixture
def inside(tmp_path: Path, environment: Path) -> Project:
    shutil.copytree(environment, tmp_path / "project/.venv", symlinks=True)
    return Project(tmp_path / "project", tmp_path / "project/.venv")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def test_an_environment_of_its_own_is_started_without_any_path_file(
    environment: Path, tmp_path: Path, marker: Path
) -> None:
    """``pip install -e .`` adds the work tree by one, and Python then imports its ``sitecustomize``."""
    own = tmp_path / "own"
    shutil.copytree(environment, own, symlinks=True)
    project = Project(tmp_path / "project", own)
    assert project.install().returncode == 0
    (own / SITE / "editable.pth").write_text(f"{project.root}\n")
    git(project.root, "checkout", "-q", "theirs")
    for name in SHADOWS:
        plant(project.root / name, marker)
    commit(project.root, "hostile")
    git(project.root, "merge", "-q", "main", PYTHONPATH=".")

    assert f"{own}/bin/python -I -S {own}/{SITE}/cortex_replay/__main__.py" in project.driver()
    assert not marker.exists()
    assert answers(project.root) == {"ours", "theirs"}


def test_an_environment_in_the_work_tree_merges(inside: Project, tmp_path: Path) -> None:
    """Also in another worktree, where git says by variables which repository is in use."""
    assert inside.install().returncode == 0
    git(inside.root, "worktree", "add", "-q", str(tmp_path / "other"), "theirs")
    git(tmp_path / "other", "merge", "-q", "main")
    assert answers(tmp_path / "other") == {"ours", "theirs"}

    git(inside.root, "merge", "-q", "-m", "merge", "theirs~0")
    assert answers(inside.root) == {"ours", "theirs"}


@pytest.mark.parametrize(
    "name",
    sample(
        ["bin/python", "pyvenv.cfg", f"{SITE}/x.pth", f"{SITE}/click.py", f"{SITE}/cortex_replay/x.py"], 2
    ),
)
def test_an_environment_that_a_branch_holds_files_in_is_not_run(
    inside: Project, marker: Path, name: str
) -> None:
    """Git puts them in the place of ignored ones without a word."""
    assert inside.install().returncode == 0
    git(inside.root, "checkout", "-q", "theirs")
    kept = (inside.environment / name).read_bytes() if name == "pyvenv.cfg" else b""
    plant(inside.environment / name, marker, is_program=name == "bin/python")
    if kept:
        (inside.environment / name).write_bytes(kept)
    git(inside.root, "add", "-f", f".venv/{name}")
    git(inside.root, "commit", "-q", "-m", "hostile")
    said = git(inside.root, "merge", "main", fails=True)

    assert not marker.exists()
    assert "this branch holds files in the Python environment" in said


@pytest.mark.parametrize(
    "variables",
    sample(
        [
            {"GIT_LITERAL_PATHSPECS": "1"},
            {"GIT_GLOB_PATHSPECS": "1"},
            {"GIT_NOGLOB_PATHSPECS": "1"},
            {"GIT_ICASE_PATHSPECS": "1"},
        ],
        1,
    ),
    ids=str,
)
def test_how_git_was_called_makes_no_difference(
    inside: Project, marker: Path, variables: dict[str, str]
) -> None:
    """Magit, for one, calls it with ``--literal-pathspecs``, and the driver inherits that."""
    assert inside.install().returncode == 0
    git(inside.root, "checkout", "-q", "theirs")
    plant(inside.environment / "bin/python", marker, is_program=True)
    git(inside.root, "add", "-f", ".venv/bin/python")
    git(inside.root, "commit", "-q", "-m", "hostile")
    said = git(inside.root, "merge", "main", fails=None, **variables)

    assert not marker.exists()
    assert "this branch holds files in the Python environment" in said


def test_the_branch_that_counts_is_that_of_the_environment(
    inside: Project, tmp_path: Path, marker: Path
) -> None:
    """In another worktree git says by variables which index is in use: not the one that is asked about."""
    assert inside.install().returncode == 0
    git(inside.root, "checkout", "-q", "-b", "hostile")
    plant(inside.environment / "bin/python", marker, is_program=True)
    git(inside.root, "add", "-f", ".venv/bin/python")
    git(inside.root, "commit", "-q", "-m", "hostile")
    git(inside.root, "worktree", "add", "-q", str(tmp_path / "other"), "theirs")
    git(tmp_path / "other", "merge", "main", fails=True)

    assert not marker.exists()


def test_another_worktree_tells_git_of_the_same_environment(
    inside: Project, tmp_path: Path, marker: Path
) -> None:
    """All worktrees have one configuration, and a branch can hold the environment where it lies."""
    git(inside.root, "worktree", "add", "-q", str(tmp_path / "other"), "theirs")
    assert inside.install(tmp_path / "other").returncode == 0
    git(tmp_path / "other", "merge", "-q", "main")
    assert answers(tmp_path / "other") == {"ours", "theirs"}

    git(inside.root, "checkout", "-q", "-b", "hostile", "theirs~1")
    plant(inside.environment / "bin/python", marker, is_program=True)
    git(inside.root, "add", "-f", ".venv/bin/python")
    git(inside.root, "commit", "-q", "-m", "hostile")
    git(inside.root, "merge", "main", fails=True)

    assert not marker.exists()


def test_a_link_in_the_place_of_the_environment_is_not_followed(inside: Project, marker: Path) -> None:
    assert inside.install().returncode == 0
    git(inside.root, "checkout", "-q", "theirs")
    shutil.rmtree(inside.environment)
    plant(inside.root / "evil/bin/python", marker, is_program=True)
    inside.environment.symlink_to("evil")
    commit(inside.root, "hostile")
    git(inside.root, "merge", "main", fails=True)

    assert not marker.exists()


def test_an_environment_that_git_tracks_gets_no_driver(inside: Project) -> None:
    """What the next branch holds there is not known."""
    git(inside.root, "add", "-f", f".venv/{SITE}/cortex_replay/__init__.py")
    done = inside.install()

    assert done.returncode == 1
    assert f"git tracks {inside.environment}" in done.stderr
    assert git(inside.root, "config", "--get", DRIVER, fails=True) == ""


def test_letters_and_signs_in_the_path_of_python(environment: Path, tmp_path: Path) -> None:
    """Git replaces what follows a percent sign, and a shell reads the rest."""
    own = tmp_path / "a %P 'b' $(touch x) %%"
    shutil.copytree(environment, own, symlinks=True)
    project = Project(tmp_path / "project", own)
    assert project.install().returncode == 0
    git(project.root, "checkout", "-q", "theirs")
    git(project.root, "merge", "-q", "main")

    assert answers(project.root) == {"ours", "theirs"}


OLD = [
    f"{sys.executable} -m cortex_replay merge-driver %O %A %B %P",
    "'/a b/python' -m cortex_replay merge-driver %O %A %B %P",
    ".venv/bin/python -m cortex_replay merge-driver %O %A %B %P",
    "python3 -X utf8 -m cortex_replay merge-driver %O %A %B %P",
    "env X=1 python -s -m cortex_replay merge-driver %O %A %B %P",
    "python -m cortex_replay merge-driver %O '%A",
]
GOOD = [
    "/x/python -I -m cortex_replay merge-driver %O %A %B %P",
    "/x/python -IS -m cortex_replay merge-driver %O %A %B %P",
    "cortex-replay merge-driver %O %A %B %P",
    "something else",
]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        *(("verify", line) for line in sample(OLD, 2)),
        ("verify --staged", OLD[0]),
        ("init --driver-only", OLD[0]),
    ],
)
def test_a_driver_of_an_earlier_version_is_mended(builder: StoreBuilder, line: str, command: str) -> None:
    git(builder.root, "init", "-q")
    commit(builder.root, "base")
    git(builder.root, "config", DRIVER, line)
    status, said = run(*command.split(), "--store", builder.root)

    assert status == 0
    assert len(said.splitlines()) == 1
    assert ("mended" in said) == command.startswith("verify")
    assert " -I " in git(builder.root, "config", DRIVER)
    assert run("verify", "--store", builder.root) == (0, "")


@pytest.mark.parametrize("line", GOOD)
def test_another_driver_is_left_alone(builder: StoreBuilder, line: str) -> None:
    git(builder.root, "init", "-q")
    git(builder.root, "config", DRIVER, line)

    assert mend_driver(builder.root) is None
    assert git(builder.root, "config", DRIVER).strip() == line


def test_a_driver_behind_a_link_is_named_and_left_alone(builder: StoreBuilder, tmp_path: Path) -> None:
    """Git writes its configuration to where a link leads."""
    git(builder.root, "init", "-q")
    git(builder.root, "config", DRIVER, OLD[0])
    config, outside = builder.root / ".git/config", tmp_path / "outside"
    config.rename(outside)
    config.symlink_to(outside)
    before = outside.read_bytes()
    status, said = run("verify", "--store", builder.root)

    assert status == 0
    assert "git config --unset-all" in said
    assert outside.read_bytes() == before


def test_a_driver_that_nothing_safe_can_replace_is_removed(inside: Project) -> None:
    git(inside.root, "add", "-f", f".venv/{SITE}/cortex_replay/__init__.py")
    git(inside.root, "config", DRIVER, OLD[0])
    command = [str(inside.environment / "bin/python"), "-I", "-m", "cortex_replay", "verify"]
    done = subprocess.run(command, cwd=inside.root, capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "it was removed, since" in done.stderr
    assert git(inside.root, "config", "--get", DRIVER, fails=True) == ""


def test_a_driver_for_all_clones_is_outranked(
    builder: StoreBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    git(builder.root, "init", "-q")
    git(builder.root, "config", "--global", DRIVER, OLD[0])

    assert "mended" in run("verify", "--store", builder.root)[1]
    assert " -I " in git(builder.root, "config", DRIVER)
    assert git(builder.root, "config", "--global", DRIVER).strip() == OLD[0]
    assert run("verify", "--store", builder.root) == (0, "")


def test_a_driver_that_cannot_be_mended_is_named(builder: StoreBuilder) -> None:
    """And verify does what it is there for."""
    git(builder.root, "init", "-q")
    git(builder.root, "config", DRIVER, OLD[0])
    (builder.root / ".git/config.lock").write_text("")
    status, said = run("verify", "--store", builder.root)

    assert status == 0
    assert "git config --unset-all" in said


@pytest.mark.parametrize("name", sample(["--help", "a\nerror: b\x1b[31m", "$(touch ran)'; touch ran; '"], 1))
def test_the_name_of_a_folder_is_neither_option_nor_command(tmp_path: Path, marker: Path, name: str) -> None:
    """Nor does it steer a terminal, when there is a conflict to be told."""
    root = tmp_path / "project"
    git(tmp_path, "init", "-q", str(root))
    store = root / name
    assert run("init", "--store", root / "llm")[0] == 0
    (root / "llm").rename(store)
    commit(root, "base")
    git(root, "checkout", "-q", "-b", "theirs")
    for branch in ("theirs", "main"):
        git(root, "checkout", "-q", branch)
        opened = Store.open(store)
        opened.replace(fixture_of(ask("same"), Answer(branch)))
        opened.commit()
        commit(root, branch)
    done = subprocess.run(
        ["git", *IDENTITY, "merge", "theirs"], cwd=root, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "has different answers" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\nerror: b" not in done.stderr
    assert not (root / "ran").exists()


def test_no_result_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("base", "theirs", "outside"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "ours").symlink_to("outside")
    status, said = run("merge-driver", "base", "ours", "theirs")

    assert status == 1
    assert "link" in said
    assert (tmp_path / "outside").read_bytes() == b""
    assert (tmp_path / "ours").is_symlink()


def test_the_module_as_a_program_imports_nothing_of_this_folder(tmp_path: Path, marker: Path) -> None:
    """But the package itself, which Python has found by then."""
    for name in SHADOWS[1:]:
        plant(tmp_path / name, marker)
    command = [sys.executable, "-m", "cortex_replay", "verify", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not marker.exists()


def test_the_hooks_that_pre_commit_installs_are_isolated(
    builder: StoreBuilder, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pre-commit puts its environment first on PATH, and leaves PYTHONPATH as it is."""
    for name in SHADOWS:
        plant(builder.root / name, marker)
    git(builder.root, "init", "-q")
    commit(builder.root, "hostile")
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        python, *words = shlex.split(hook["entry"])
        assert python == "python"
        done = subprocess.run(
            [sys.executable, *words],
            cwd=builder.root,
            env=os.environ | {"PYTHONPATH": "."},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    assert not marker.exists()


@pytest.mark.parametrize("way", sample(["file", "link", "common", "named"], 2))
@pytest.mark.parametrize("command", ["init", "verify"])
def test_an_archive_does_not_lead_to_the_configuration_of_another_clone(
    tmp_path: Path, way: str, command: str
) -> None:
    """By a ``.git`` that is a file, a link, or a folder that shares another's."""
    git(tmp_path, "init", "-q", "mine")
    git(tmp_path / "mine", "config", DRIVER, "python -m cortex_replay merge-driver %O %A %B")
    archive = tmp_path / "archive"
    assert run("init", "--store", archive)[0] == 0
    if way == "file":
        (archive / ".git").write_text("gitdir: ../mine/.git\n")
    elif way == "named":  # as that of a submodule is
        (tmp_path / "mine/.git").rename(tmp_path / "mine/sub")
        git(tmp_path / "mine/sub", "config", "core.worktree", "..")
        (archive / ".git").write_text("gitdir: ../mine/sub\n")
        (tmp_path / "mine/.git").symlink_to("sub")
    elif way == "link":
        (archive / ".git").symlink_to("../mine/.git")
    else:
        (archive / ".git").mkdir()
        (archive / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (archive / ".git/commondir").write_text("../../mine/.git\n")
        (archive / ".git/gitdir").write_text(f"{archive}/.git\n")
    before = (tmp_path / "mine/.git/config").read_text()
    words = ["init", "--driver-only"] if command == "init" else ["verify"]
    status, said = run(*words, "--store", archive)

    assert (tmp_path / "mine/.git/config").read_text() == before
    assert "belongs to another work tree" in said
    assert status == (1 if command == "init" else 0)
