"""``cortex-replay init``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import Index
from tests.builder import StoreBuilder
from tests.cli.commands import (
    run,
)
from tests.nested import LIGHT


def example(root: Path, framework: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest" if framework == "pytest" else "unittest", "test_llm_example.py"]
    return subprocess.run(
        command, cwd=root, env=os.environ | LIGHT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
@pytest.mark.parametrize("place", [".", "tests/llm"])
def test_init(tmp_path: Path, framework: str, place: str) -> None:
    """A sound store, git settings, a hook, the merge driver, and an example that passes."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    root = tmp_path / place
    chosen = [] if framework == "pytest" else ["--framework", framework]  # pytest is installed here
    result = run("init", "--store", root, *chosen)

    assert result.exit_code == 0, result.output
    assert StoreBuilder(root).findings() == []
    assert (root / "INDEX.toml").read_text() == render_index(Index())
    assert "INDEX.toml -text merge=cortex-replay" in (root / ".gitattributes").read_text()
    assert (root / ".gitignore").read_text() == ".cortex-replay/\n"
    assert f"--store {place}" in (tmp_path / ".pre-commit-config.yaml").read_text()
    driver = subprocess.run(
        ["git", "config", "merge.cortex-replay.driver"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert " -I " in driver.stdout
    assert driver.stdout.endswith("/__main__.py merge-driver -- %O %A %B %P\n")
    done = example(root, framework)
    assert done.returncode == 0, done.stdout + done.stderr
    tracked = subprocess.run(
        ["git", "add", "-A", "-v"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ".cortex-replay" not in tracked.stdout


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """Lists are added to, other files left alone; the second time all is found."""
    mine = {"test_llm_example.py": "mine\n", ".pre-commit-config.yaml": "repos: []\n"}
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".gitignore").write_text("*.log")
    result = run("init", "--store", tmp_path)
    assert result.exit_code == 0
    assert "not in a git repository" in result.stderr
    assert "cortex-replay verify --staged" in result.stderr
    assert (tmp_path / ".gitignore").read_text() == "*.log\n.cortex-replay/\n"
    assert {name: (tmp_path / name).read_text() for name in mine} == mine

    before = contents(tmp_path)
    again = run("init", "--store", tmp_path)
    assert again.exit_code == 0
    assert not any(line.startswith(("wrote", "added")) for line in again.stdout.splitlines())
    assert contents(tmp_path) == before
    assert run("init", "--driver-only", "--store", tmp_path).exit_code == 1


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_init_completes_a_store_that_is_there(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As recording has made it; its answers stay, and it gets no example among them."""
    project = builder.root.parent
    monkeypatch.chdir(project)
    subprocess.run(["git", "init", "-q", project], check=True)
    before = contents(builder.root)
    result = run("init", "--store", builder.root.name)

    assert result.exit_code == 0, result.output
    assert f"found {builder.root.name}/INDEX.toml" in result.stdout
    after = contents(builder.root)
    assert {name: after[name] for name in before} == before
    assert {Path(name).name for name in after.keys() - before.keys()} == {".gitattributes", ".gitignore"}
    assert (project / "pytest.ini").read_text() == f"[pytest]\nllm_store = {builder.root.name}\n"
    assert json.loads(run("list", "--json").stdout), "every command finds the store"


def test_neither_prune_nor_a_report_touches_the_example(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    """It has an answer of its own, so the user's store holds only the user's."""
    monkeypatch.chdir(pytester.path)
    assert run("init", "--store", "tests/llm").exit_code == 0
    first = pytester.runpytest_inprocess("--llm-fail-unused")
    assert run("prune", "--model", "*", "--store", "tests/llm").exit_code == 0
    second = pytester.runpytest_inprocess("--llm-fail-unused")

    first.assert_outcomes(passed=1)
    assert (first.ret, second.ret) == (0, 0)


PYPROJECT = '[project]\nname = "x"  # mine\n'
WIRED = {
    "nothing": ({}, "pytest.ini", "[pytest]\nllm_store = llm\n"),
    "pytest.ini": (
        {"pytest.ini": "# mine\n[pytest]\naddopts = -q\n"},
        "pytest.ini",
        "# mine\n[pytest]\nllm_store = llm\naddopts = -q\n",
    ),
    "an empty pytest.ini": ({"pytest.ini": ""}, "pytest.ini", "[pytest]\nllm_store = llm\n"),
    "pyproject.toml": (
        {"pyproject.toml": f"{PYPROJECT}\n[tool.pytest.ini_options]\naddopts = '-q'\n"},
        "pyproject.toml",
        f"{PYPROJECT}\n[tool.pytest.ini_options]\nllm_store = \"llm\"\naddopts = '-q'\n",
    ),
    "pyproject.toml without pytest": (
        {"pyproject.toml": PYPROJECT},
        "pyproject.toml",
        f'{PYPROJECT}\n[tool.pytest.ini_options]\nllm_store = "llm"\n',
    ),
    "pytest's own TOML": (
        {"pyproject.toml": "[tool.pytest]\nstrict = true\n"},
        "pyproject.toml",
        '[tool.pytest]\nllm_store = "llm"\nstrict = true\n',
    ),
    "pytest.toml": ({"pytest.toml": "[pytest]\n"}, "pytest.toml", '[pytest]\nllm_store = "llm"\n'),
    "tox.ini": (
        {"tox.ini": "[tox]\nenvlist = py\n[pytest]\naddopts = -q\n", "pyproject.toml": PYPROJECT},
        "tox.ini",
        "[tox]\nenvlist = py\n[pytest]\nllm_store = llm\naddopts = -q\n",
    ),
    "setup.cfg": (
        {"setup.cfg": "[tool:pytest]\naddopts = -q\n"},
        "setup.cfg",
        "[tool:pytest]\nllm_store = llm\naddopts = -q\n",
    ),
}


@pytest.mark.parametrize(("files", "name", "text"), WIRED.values(), ids=WIRED.keys())
def test_pytest_finds_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], name: str, text: str
) -> None:
    """The line goes where pytest takes its options from, and nothing else changes."""
    monkeypatch.chdir(tmp_path)
    for path, content in files.items():
        (tmp_path / path).write_text(content)
    assert run("init", "--store", "llm").exit_code == 0
    assert (tmp_path / name).read_text() == text
    unchanged = files.keys() - {name}
    assert {path: (tmp_path / path).read_text() for path in unchanged} == {
        path: files[path] for path in unchanged
    }
    assert "found " + name in run("init", "--store", "llm").stdout


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        ({"pyproject.toml": "not TOML ["}, 'add to it: [tool.pytest.ini_options] llm_store = "llm"'),
        ({"pytest.ini": "no section\n"}, "add to it, below [pytest]: llm_store = llm"),
        ({"pytest.ini": "[pytest]\nllm_store = other\n"}, "names another store there: other, not llm"),
        (
            {"pyproject.toml": "tool.pytest.ini_options.addopts = '-q'\n"},
            "add to it: [tool.pytest.ini_options]",
        ),
        ({"cortex-replay.toml": "store = 'other'\n"}, "names another store there: other, not llm"),
    ],
)
def test_what_cannot_be_added_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], advice: str
) -> None:
    """And the file stays as it is."""
    monkeypatch.chdir(tmp_path)
    for path, content in files.items():
        (tmp_path / path).write_text(content)
    result = run("init", "--store", "llm")

    assert result.exit_code == 0, result.output
    assert advice in result.stderr
    assert {path: (tmp_path / path).read_text() for path in files} == files


def test_settings_go_where_the_project_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a part of a larger repository: beside that part's own settings; hooks are the repository's."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    part = tmp_path / "packages/a"
    part.mkdir(parents=True)
    (part / "pyproject.toml").write_text("[tool.cortex-replay]\njobs = 2\n")
    monkeypatch.chdir(tmp_path)
    assert run("init", "--store", "packages/a/tests/llm").exit_code == 0
    written = tomllib.loads((part / "pyproject.toml").read_text())["tool"]

    assert written["cortex-replay"] == {"store": "tests/llm", "jobs": 2}
    assert written["pytest"] == {"ini_options": {"llm_store": "tests/llm"}}
    assert "--store packages/a/tests/llm" in (tmp_path / ".pre-commit-config.yaml").read_text()
    assert not (tmp_path / "pytest.ini").exists()


@pytest.mark.parametrize("indent", ["", "  ", "    "])
def test_hooks_are_added_to_those_that_are_there(tmp_path: Path, indent: str) -> None:
    """Once, and as YAML reads them; comments and the rest stay."""
    other = (
        f"{indent}- repo: https://example.org/x\n{indent}  rev: v1\n{indent}  hooks:\n{indent}  - id: ruff\n"
    )
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text(f"default_stages: [pre-commit]\nrepos:\n# mine\n{other}ci:\n  skip: [x]\n")
    before = yaml.safe_load(path.read_text())
    assert run("init", "--store", tmp_path).exit_code == 0
    text = path.read_text()
    after = yaml.safe_load(text)
    hooks = [hook["id"] for hook in after["repos"][0]["hooks"]]

    assert hooks == ["cortex-replay-verify", "cortex-replay-scan"]
    assert after | {"repos": after["repos"][1:]} == before
    assert "# mine\n" in text
    assert run("init", "--store", tmp_path).exit_code == 0
    assert path.read_text() == text


def test_files_beside_a_new_store_are_no_dead_end(tmp_path: Path) -> None:
    """Another kind of fixtures is there: the message says where the store can go."""
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/users.json").write_text("[]")
    refused = run("init", "--store", tmp_path)

    assert refused.exit_code == 1
    assert "cortex-replay init --store tests/llm" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["fixtures"]
    assert run("init", "--store", tmp_path / "tests/llm").exit_code == 0


def test_init_for_programs(tmp_path: Path) -> None:
    """What was written, and what was found, and nothing else on stdout."""
    made = json.loads(run("init", "--json", "--store", tmp_path).stdout)

    assert (made["store"], made["framework"], made["merge_driver"]) == (str(tmp_path), "pytest", False)
    assert all(Path(path).is_file() for path in made["written"])
    again = json.loads(run("init", "--json", "--store", tmp_path).stdout)
    assert again["written"] == []
    assert {step["outcome"] for step in again["steps"]} == {"found"}


def test_wrong_usage(tmp_path: Path) -> None:
    assert run("init", "--framework", "nose", "--store", tmp_path).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_project_in_javascript_gets_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("package.json").write_text("{}")
    result = run("init", "--store", "llm")

    assert result.exit_code == 0
    assert "cortex-replay init --js" in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".py", ".ini")]
    Path("tests").mkdir()
    Path("tests/test_it.py").touch()
    assert run("init", "--store", "other").exit_code == 0
    assert Path("other/test_llm_example.py").exists()
