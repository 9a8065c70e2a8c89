"""Every command has tests, examples, and a table of its exit statuses."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from cortex_replay.cli.catalogue import SECTIONS, SUMMARIES
from cortex_replay.cli.main import main
from tests.cli.commands import run

HERE = Path(__file__).parent
COMMANDS = main.list_commands(click.Context(main))


def file_of(command: str) -> Path:
    return HERE / f"test_{command.replace('-', '_')}.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_file_of_tests_that_runs_it(command: str) -> None:
    path = file_of(command)

    assert path.is_file()
    assert re.search(rf"\"{command}\"", path.read_text()), f"{path.name} never runs {command}"
    assert "def test_" in path.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_ends_with_the_exit_statuses(command: str) -> None:
    text = run(command, "--help").stdout

    assert re.search(
        rf"^Examples:\n\n(.+\n)*?.*cortex-replay (init --driver-only|{command})", text, re.MULTILINE
    )
    assert re.search(r"Exit status:\n(  \d  .+\n)+$", text)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_catalogue_has_the_first_sentence_of_a_command_s_own_help(command: str) -> None:
    loaded = main.get_command(click.Context(main), command)
    assert loaded is not None
    assert loaded.help is not None

    assert " ".join(loaded.help.split()).startswith(SUMMARIES[command])
    assert re.fullmatch(r"[A-Z][^.]+(INDEX\.toml[^.]+)?\.", SUMMARIES[command]), "one whole sentence"


def test_every_command_is_in_the_document() -> None:
    document = (HERE.parents[1] / "docs/cli.md").read_text()

    assert set(COMMANDS) <= set(re.findall(r"^\| `([a-z-]+)", document, re.MULTILINE))


def test_help_shows_the_sections_with_whole_sentences() -> None:
    shown = run("--help").stdout
    words = " ".join(shown.split())

    assert [title for title in SECTIONS if f"\n{title}:\n" not in shown] == []
    assert [name for name, text in SUMMARIES.items() if f"{name} {text}" not in words] == []


WRONG = [
    "batch bad.jsonl --provider scripted",
    "batch good.jsonl",
    "batch good.jsonl --provider nobody",
    "import bad.yaml",
    "import nothing.yaml",
    "record --provider scripted --prompt hi",
    "record --provider nobody --model m --prompt hi",
    "record --provider scripted --script nothing --model m --prompt hi",
    "record --provider scripted --model m --prompt hi -- true",
    "record --fault nonsense -- true",
    "record --upstream nonsense -- true",
    "record --mode never -- true",
    "record --",
    "record -- /nothing/there",
    "refresh --provider scripted",
    "serve --mode record --fault nonsense",
    "serve --mode record --host 192.0.2.1",
    "serve --mode record --upstream nonsense",
    "sweep --fault nonsense -- true",
    "init --framework nose",
    "init --driver-only",
    "init --overwrite",
    "init --ci jenkins",
    "index --adopt-staged --discard-staged",
    "resolve --ours",
    "prune --older-than never",
    "export --crtx out",
]


@pytest.mark.parametrize("line", [*(f"{command} --no-such-option" for command in COMMANDS), *WRONG])
def test_wrong_usage_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """No store, no folder, no file: a mistake leaves nothing to clean up."""
    monkeypatch.chdir(tmp_path)
    files = {
        "bad.jsonl": "nonsense\n",
        "good.jsonl": '{"model": "m", "messages": "hi"}\n',
        "bad.yaml": "x: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run(*line.split())

    assert done.exit_code != 0, done.output
    assert {path.name for path in tmp_path.iterdir()} == set(files)
