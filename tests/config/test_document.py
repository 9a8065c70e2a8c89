"""The guide says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from cortex_replay.config import (
    CallerSettings,
    Grant,
    Kind,
    ProviderSettings,
    Redaction,
    Settings,
    key_rules_for,
    load_settings,
)
from cortex_replay.config.load import VARIABLES
from cortex_replay.config.provider import kind_settings
from cortex_replay.providers import PROVIDERS
from cortex_replay.types import LlmRequest
from tests.config.conftest import Project

KINDS: list[Kind] = list(get_args(Kind))
GUIDE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a heading, by its first column."""
    section = re.split(r"^#+ ", GUIDE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells for cells in lines}


def test_every_setting_is_documented_with_its_default() -> None:
    """And none is that is not there."""
    table = rows("Settings")
    scalars = {f.name: f.default for f in fields(Settings) if f.name in VARIABLES.values()}

    assert set(scalars) == set(table)
    for name, default in scalars.items():
        shown = "none" if default is None else "this folder" if name == "store" else f"`{default}`"
        assert (shown.lower() if isinstance(default, bool) else shown) == table[name][1], name
        assert f"`CORTEX_REPLAY_{name.upper()}`" in GUIDE
    for name in {f.name for f in fields(Settings)} - set(scalars):
        assert f"`{name}" in GUIDE


def test_every_setting_of_providers_is_documented_with_its_kinds() -> None:
    """And those that come built in."""
    table = rows("Providers")
    for field in (one for one in fields(ProviderSettings) if one.name != "project"):
        kinds = re.findall("`([a-z-]+)`", table[field.name][1])
        having = [kind for kind in KINDS if field.name in kind_settings(kind)]
        assert (kinds or KINDS) == having, field.name
    for name in PROVIDERS:
        assert f"| `{name}` |" in GUIDE


def test_every_setting_of_redaction_is_documented() -> None:
    """By its dotted name."""
    assert {f"redaction.{field.name}" for field in fields(Redaction)} <= set(rows("Redaction"))


def test_every_setting_of_callers_is_documented() -> None:
    """And every capability."""
    table = rows("Callers")

    assert {field.name for field in fields(CallerSettings)} == {*table, "project"}
    assert all(f"`{grant}`" in table["grants"][2] for grant in get_args(Grant))


@pytest.mark.parametrize("number", range(len(re.findall("```toml", GUIDE))))
def test_the_examples_are_sound(project: Project, number: int) -> None:
    """Each of them, as a file of its own."""
    text = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[number]
    project.write(text, "pyproject.toml" if "[tool.cortex-replay" in text else "cortex-replay.toml")
    loaded = load_settings(project.root, {})

    assert loaded.file is not None
    key_rules_for(project.root)


def test_the_example_of_a_key_does_what_the_guide_says(project: Project) -> None:
    """A prompt with a date and a ticket, today and tomorrow."""
    text = next(t for t in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL) if "redact_key" in t)
    project.write(text, "pyproject.toml" if "[tool.cortex-replay" in text else "cortex-replay.toml")
    before, after = re.findall(r"```text\n(.*)\n(.*)\n```", GUIDE)[0]
    request, _ = key_rules_for(project.root).apply(LlmRequest("m", messages=before))

    assert after == request.messages[0].content


def test_the_guide_names_no_key() -> None:
    """Only variables."""
    assert not re.search(r"sk-[a-z]+-\w{8}", GUIDE)
