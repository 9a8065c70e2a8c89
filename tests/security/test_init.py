"""``init`` in a repository of a stranger: it writes where it says, or nothing at all."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from cortex_replay.cli.main import main
from tests.sampling import sample

TARGETS = [
    "INDEX.toml",
    ".gitattributes",
    ".gitignore",
    ".cortex-replay",
    "fixtures",
    "fixtures/example-model",
]


def init(*arguments: object) -> Result:
    done = CliRunner().invoke(main, ["init", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def snapshot(folder: Path) -> dict[str, str]:
    """Everything there is, without following a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes().hex()
    return found


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's repository, beside what is the user's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("mine\n")
    root = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("leads_to", ["outside", "outside/file", "outside/new"])
@pytest.mark.parametrize(
    ("store", "target"),
    [*((".", name) for name in TARGETS[:3]), *(("tests/llm", name) for name in TARGETS[1:])],
)
def test_a_link_in_the_place_of_a_target_stops_it(
    clone: Path, store: str, target: str, leads_to: str
) -> None:
    path = clone / store / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(clone.parent / leads_to)
    before = snapshot(clone.parent)
    done = init("--store", store)

    assert done.exit_code == 1
    assert "nothing was written" in done.stderr
    assert snapshot(clone.parent) == before


@pytest.mark.parametrize("leads_to", sample(["outside", "outside/file", "outside/new"], 1))
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (".pre-commit-config.yaml", "add to it"),
        ("pytest.ini", "add to it, below [pytest]: llm_store = tests/llm"),
        ("pyproject.toml", ""),
        ("cortex-replay.toml", 'add to it: store = "tests/llm"'),
        ("tests/llm/test_llm_example.py", "it is there already"),
    ],
)
def test_a_link_in_the_place_of_a_file_of_the_project_is_left_alone(
    clone: Path, leads_to: str, name: str, advice: str
) -> None:
    """Honest ones share a configuration that way; nothing is written through it."""
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).symlink_to(clone.parent / leads_to)
    before = snapshot(clone.parent / "outside")
    done = init("--store", "tests/llm")

    assert done.exit_code == 0, done.output
    assert advice in done.stderr
    assert snapshot(clone.parent / "outside") == before
    assert (clone / name).is_symlink()


@pytest.mark.parametrize("store", ["linked", "linked/llm", "linked/new/llm"])
@pytest.mark.parametrize("is_configured", [False, True])
def test_a_store_behind_a_link_is_not_made(clone: Path, store: str, is_configured: bool) -> None:
    (clone / "linked").symlink_to(clone.parent / "outside")
    if is_configured:
        (clone / "cortex-replay.toml").write_text(f'store = "{store}"\n')
    before = snapshot(clone.parent)
    done = init(*([] if is_configured else ["--store", store]))

    assert done.exit_code == 1
    assert "nothing was written" in done.stderr
    assert snapshot(clone.parent) == before


@pytest.mark.parametrize("store", ["../outside/llm", "{outside}/llm", "a/../../outside", "~/llm"])
@pytest.mark.parametrize("more", [[], ["--driver-only"]])
def test_a_configuration_does_not_place_a_store_outside_of_its_project(
    clone: Path, monkeypatch: pytest.MonkeyPatch, store: str, more: list[str]
) -> None:
    """Only the user does, by a flag."""
    outside = clone.parent / "outside"
    monkeypatch.setenv("HOME", str(outside))
    subprocess.run(["git", "init", "-q", outside], check=True)
    store = store.format(outside=outside)
    (clone / "cortex-replay.toml").write_text(f'store = "{store}"\n')
    before = snapshot(clone.parent)
    done = init(*more)

    assert done.exit_code == 2
    assert "--store" in done.stderr
    assert snapshot(clone.parent) == before
    assert init("--store", outside / "llm").exit_code == 0


def test_a_store_elsewhere_in_the_project_may_be_configured(clone: Path) -> None:
    """Also above the file that says so."""
    (clone / "part").mkdir()
    (clone / "part/cortex-replay.toml").write_text('store = "../llm"\n')
    os.chdir(clone / "part")

    assert init().exit_code == 0
    assert (clone / "llm/INDEX.toml").exists()


def test_the_environment_places_a_store_anywhere(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the user's own."""
    monkeypatch.setenv("CORTEX_REPLAY_STORE", str(clone.parent / "outside/llm"))

    assert init().exit_code == 0
    assert (clone.parent / "outside/llm/INDEX.toml").exists()


@pytest.mark.parametrize("character", ["\n", "\x1b", "\x7f", "\u202e", "\u2028"])
@pytest.mark.parametrize("way", ["flag", "folder", "configuration"])
def test_a_store_with_a_control_character_is_refused(clone: Path, character: str, way: str) -> None:
    """It would be a line of its own in a file, or steer a terminal."""
    name = f"llm{character}        entry: sh -c evil"
    words: list[str] = []
    if way == "flag":
        words = ["--store", name]
    elif way == "folder":
        (clone / name).mkdir()
        os.chdir(clone / name)
    else:
        (clone / "cortex-replay.toml").write_text(f"store = {json.dumps(name)}\n")
    before = snapshot(clone)
    done = init(*words)

    assert done.exit_code == 2
    assert character not in done.output.rstrip("\n").replace("\n", "" if character == "\n" else "\n")
    assert snapshot(clone) == before


@pytest.mark.parametrize(
    "name",
    sample(
        [
            "plain/llm",
            "with space",
            'a"b',
            "a: b # c",
            "--json",
            "[a, b]",
            "*x &y !z",
            "a\\b",
            "$(touch x)",
            "ä ö",
            "~",
            "%s{store}",
            "' || touch x || '",
        ],
        4,
    ),
)
def test_the_hook_names_exactly_the_store(clone: Path, name: str) -> None:
    """pre-commit reads YAML, then splits words as a shell does."""
    done = init("--store", clone / name)
    assert done.exit_code == 0, done.output
    subprocess.run(["git", "add", "-A"], cwd=clone, check=True)
    (repository,) = yaml.safe_load((clone / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    hooks = repository["hooks"]
    assert [hook["id"] for hook in hooks] == ["cortex-replay-verify", "cortex-replay-scan"]

    for hook in hooks:
        assert set(hook) == {"id", "name", "entry", "language", "always_run", "pass_filenames"}
        words = shlex.split(hook["entry"])
        assert words[0] == "cortex-replay"
        assert (clone / words[-1]).resolve() == (clone / name).resolve()
        ran = CliRunner().invoke(main, words[1:])
        assert ran.exit_code == 0, ran.output


def test_what_it_prints_steers_no_terminal(tmp_path: Path) -> None:
    """The folders above a project may be called anything."""
    root = tmp_path / "a\x1b]0;b\x07"
    subprocess.run(["git", "init", "-q", root], check=True)
    done = init("--store", root / "llm")

    assert "\x1b" not in done.output
    assert done.exit_code == 0


def test_lines_are_added_to_files_of_any_encoding(clone: Path) -> None:
    """Whatever stands there stays, and so does its mode."""
    (clone / ".gitignore").write_bytes(b"caf\xe9\r\n*.log")
    (clone / ".gitignore").chmod(0o600)

    assert init().exit_code == 0
    assert (clone / ".gitignore").read_bytes() == b"caf\xe9\r\n*.log\n.cortex-replay/\n"
    assert (clone / ".gitignore").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "huge"])
def test_something_else_in_the_place_of_a_target_stops_it(clone: Path, name: str, kind: str) -> None:
    path = clone / name
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(2**40)
    done = init()

    assert done.exit_code == 1
    assert "nothing was written" in done.stderr
    assert not (clone / "INDEX.toml").exists()
    assert not (clone / ".pre-commit-config.yaml").exists()


def test_no_device_is_read_to_guess_the_framework(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link may lead to one that has no end."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("setup.cfg", "tox.ini", "requirements-dev.txt"):
        (clone / name).symlink_to("/dev/zero")

    assert init().exit_code == 0


def test_a_config_of_git_that_is_a_link_is_not_written(clone: Path) -> None:
    """Git would follow it."""
    outside = clone.parent / "outside/gitconfig"
    (clone / ".git/config").rename(outside)
    (clone / ".git/config").symlink_to(outside)
    before = outside.read_bytes()
    done = init("--driver-only")

    assert done.exit_code == 1
    assert "is a link" in done.stderr
    assert outside.read_bytes() == before


@pytest.mark.parametrize("store", ["new/..", "./new/../.", "new/deep/../.."])
def test_nothing_is_overwritten_by_a_way_around(clone: Path, store: str) -> None:
    """A folder that is not there yet, and then up again."""
    mine = {"test_llm_example.py": "mine\n", "pytest.ini": "[pytest]\nllm_store = mine\n"}
    for name, text in mine.items():
        (clone / name).write_text(text)
    done = init("--store", store)

    assert "left alone test_llm_example.py" in done.stdout
    assert {name: (clone / name).read_text() for name in mine} == mine
