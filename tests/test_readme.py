"""What the documents show is what happens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import get_args

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from anthropic.types import Model
from click.testing import CliRunner
from openai.types import ChatModel

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.store import trust

ROOT = Path(__file__).parent.parent


def test_the_python_in_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, at the top of a clone."""
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_the_python_in_the_guide_to_writing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/writing.md").read_text(), re.DOTALL)
    exec(compile(block, "writing.md", "exec"), {})

    assert len(Store.open(tmp_path / "tests/llm")) == 2


def test_the_commands_in_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them, in a copy of the shipped store."""
    shutil.copy(ROOT / "INDEX.toml", tmp_path)
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    subprocess.run(["git", "init", "-q", "-b", "main", tmp_path], check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *name, "commit", "-qm", "Record"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    bucket = tmp_path.parent / "bucket"
    (tmp_path / "cortex-replay.toml").write_text(f'[remote]\nurl = "{bucket.as_uri()}"\n')
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^\$ cortex-replay ([a-z]+[^#\n]*)", text, re.MULTILINE)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    assert len(commands) >= 4
    for command in commands:
        if " -- " in command:  # programs of others; `make integration` runs them
            continue
        result = CliRunner().invoke(main, shlex.split(command))
        if "--provider claude" in command:  # it gets as far as it can without a key
            assert "api_key" in result.stderr, command
        else:
            assert result.exit_code == 0, command


def test_every_code_of_a_finding_is_documented() -> None:
    """And none is documented that cannot occur."""
    sources = "".join(
        path.read_text()
        for area in ("store", "sharing", "cli")
        for path in (ROOT / "cortex_replay" / area).rglob("*.py")
    )
    raised = set(re.findall(r'(?:Finding|return)\(?\s*"([a-z]+(?:-[a-z]+)*)",', sources))
    raised |= set(re.findall(r'code(?:: str)?=? ?=? ?"([a-z]+-?[a-z]+)"', sources))
    raised |= set(re.findall(r'FixtureError\([^()]*?, "([a-z-]+)"\s*\)', sources))
    raised |= {"json-malformed", "fixture-invalid"}
    section = (ROOT / "docs/store-format.md").read_text().partition("## Trust")[2]
    documented = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", section.partition("Read each file")[0]))

    assert raised == documented


def test_the_rules_of_trust_are_the_same_in_code_and_document() -> None:
    """T1 to T10 in both."""
    rules = [f"T{i}" for i in range(1, 11)]

    assert all(f"**{rule}**" in (trust.__doc__ or "") for rule in rules)
    assert all(f"| {rule} |" in (ROOT / "docs/store-format.md").read_text() for rule in rules)


def test_make_help_lists_every_target() -> None:
    """A target without a description is one nobody finds."""
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    described = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)

    assert phony
    assert sorted(phony[1].split()) == sorted(described)


def test_no_file_names_a_machine() -> None:
    """No path of somebody's computer gets into the repository."""
    pattern = re.compile(r"/(?:work|root|home|Users)/[a-z]")
    for folder in ("cortex_replay", "docs", "examples", "benchmarks", "fixtures"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".md", ".json", ".toml", ".rs"}:
                assert not pattern.search(path.read_text()), path


@pytest.mark.parametrize("name", ["adapters.md", "recording.md"])
def test_the_python_in_the_guides_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it goes without a key."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {})


@pytest.mark.parametrize("guide", ["gateway", "faults"])
def test_the_python_in_a_guide_runs(monkeypatch: pytest.MonkeyPatch, guide: str) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{guide}.md").read_text(), re.DOTALL)

    exec(compile(block, guide, "exec"), {})


_MODELS = re.compile(r"\b(?!claude-code\b)(?:claude|gpt)-[a-z0-9.-]*[a-z0-9](?![*a-z0-9])")
_LEAVING = re.compile(r"gpt-(?:3|4|5(?:\.1)?(?:-|$))")
"""Models that OpenAI has shut down or announced to shut down, as of November 2026."""


def models_that_do_not_live_on(text: str) -> set[str]:
    """The names of hosted models in a text that their provider's SDK does not know, or calls deprecated."""
    known = {name for union in get_args(Model) for name in get_args(union)} | set(get_args(ChatModel))
    named = set(_MODELS.findall(text))
    return {name for name in named if name not in known or name in DEPRECATED_MODELS or _LEAVING.match(name)}


_GENERATED = re.compile(r"<!-- (suites: |facts).*?<!-- end of (suites|facts) -->", re.DOTALL)
"""What others' suites ask for, and what is known of models, is no example of ours."""


def test_models_in_documents_examples_and_help_live_on() -> None:
    """A reader pastes them, and pays for the error."""
    paths = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    paths += ROOT.glob("cortex_replay/cli/*.py")
    gone = {path.name: models_that_do_not_live_on(_GENERATED.sub("", path.read_text())) for path in paths}

    assert {name: models for name, models in gone.items() if models} == {}


def test_the_check_sees_a_model_that_is_gone() -> None:
    planted = "claude-sonnet-4-5, gpt-4o-mini; gpt-5, `gpt-6-luna` claude-haiku-5-5. 'claude-*' gpt-7-moon"

    assert models_that_do_not_live_on(planted) == {"claude-sonnet-4-5", "gpt-4o-mini", "gpt-5", "gpt-7-moon"}


_NAMED_FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|jsonl|rs))`|\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_FOLDER_NAMED = re.compile(r"`((?:cortex_replay|tests|docs|benchmarks|integration|examples)(?:/[\w.-]+)*/?)`")


def files_that_are_not_there(document: str, text: str, files: Collection[str]) -> list[str]:
    """What a document names as a file or a folder of this repository, and is none.

    The design speaks of areas, so its paths may begin at the package; a bare name stands for any file of that
    name.
    """
    folder = document.rpartition("/")[0]
    is_design = document == "docs/design.md" or folder == "docs/adr"
    bases = ["", "cortex_replay/"] if is_design else [""]
    names = {name.rpartition("/")[2] for name in files}
    folders = {name[:end] for name in files for end, letter in enumerate(name) if letter == "/"}
    missing = []
    for named, linked in _NAMED_FILE.findall(text):
        if linked:
            is_there = os.path.normpath(f"{folder}/{linked}").lstrip("/") in {*files, *folders}
        else:
            is_there = any(base + named in files for base in bases) or ("/" not in named and named in names)
        missing += [] if is_there else [named or linked]
    missing += [name for name in _FOLDER_NAMED.findall(text) if name.rstrip("/") not in {*files, *folders}]
    return sorted(set(missing) - _OF_A_USER)


_OF_A_USER = {"tests/llm"}
"""Of a user's project."""


def test_every_file_that_a_document_names_is_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = set(listed.stdout.splitlines())
    documents = [name for name in files if name == "README.md" or re.fullmatch(r"docs/.*\.md", name)]
    missing = {name: files_that_are_not_there(name, (ROOT / name).read_text(), files) for name in documents}

    assert len(documents) > 20
    assert {name: found for name, found in missing.items() if found} == {}


def test_the_check_sees_a_file_that_is_not_there() -> None:
    files = {
        "README.md",
        "docs/key.md",
        "docs/adr/0001-a.md",
        "cortex_replay/wire/body.py",
        "tests/test_a.py",
    }
    text = """
`wire/body.py` `cortex_replay/wire/body.py` `test_a.py` `test_b.py` `tests/` `tests/gone/` `tests/llm`
[a](key.md) [b](gone.md#c) [c](https://example.com/x.md) [d](adr/0001-a.md)
"""

    assert files_that_are_not_there("docs/wires.md", text, files) == [
        "gone.md",
        "test_b.py",
        "tests/gone/",
        "wire/body.py",
    ]
    assert files_that_are_not_there("docs/design.md", "`wire/body.py`", files) == []
