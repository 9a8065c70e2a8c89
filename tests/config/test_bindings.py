"""The table of bindings."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.bindings import BindingRules, PlaceRule
from cortex_replay.bindings.rules import ValueRule
from cortex_replay.bindings.shapes import ALWAYS
from cortex_replay.config import KeyRules, Normaliser, key_rules_for
from cortex_replay.config.files import find_user_config
from cortex_replay.config.reader import LayerReader
from cortex_replay.errors import ConfigError
from cortex_replay.types import LlmRequest
from tests.config.conftest import Project

WHOLE = """
[bindings]
off = ["date", "uuid", "build"]
shapes = ["ulid"]
values.build = { env = "BUILD_ID" }
values.site = { value = "staging eu 7" }

[[bindings.rules]]
bind = "duration"
before = "Wall time: "
after = " in all"
learned = "call 2, tool result"

[[bindings.rules]]
bind = "site"
before = "at "
after = "."
"""


def test_a_table_says_what_is_bound(project: Project) -> None:
    project.write(WHOLE)
    rules = BindingRules(
        off=("date", "uuid", "build"),
        shapes=("ulid",),
        values={"build": ValueRule(env="BUILD_ID"), "site": ValueRule(value="staging eu 7")},
        rules=(
            PlaceRule(bind="duration", before="Wall time: ", after=" in all", learned="call 2, tool result"),
            PlaceRule(bind="site", before="at ", after="."),
        ),
    )

    assert project.load().settings.bindings == rules
    assert key_rules_for(project.root / "tests/llm").bindings == rules
    origins = project.load().origins
    assert {origins[f"bindings.{name}"] for name in ("off", "shapes", "rules", "values.site")} == {
        "cortex-replay.toml"
    }


def test_without_a_table_the_defaults_hold(project: Project) -> None:
    assert project.load().settings.bindings == BindingRules()
    assert BindingRules().shapes == ALWAYS
    assert key_rules_for(project.root).bindings == BindingRules()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bindings = 1", ": expected a table"),
        ("[bindings]\nof = []", ".of: there is no such setting; did you mean off?"),
        ('[bindings]\noff = ["dates"]', ".off[0]: names nothing that is bound; did you mean date?"),
        ('[bindings]\noff = "date"', ".off: expected a list, not a str"),
        ('[bindings]\nshapes = ["uuidd"]', ".shapes[0]: names nothing that is bound; did you mean uuid?"),
        ('[bindings]\nshapes = ["pid"]', ".shapes[0]: a pid is bound at one place only: write a rule"),
        ("[bindings.values]\nx = 1", ".values.x: expected a table"),
        ("[bindings.values]\nx = {}", '.values.x: expected { env = "VARIABLE" } or { value = "text" }'),
        ('[bindings.values.x]\nenv = "A"\nvalue = "b"', ".values.x: expected { env"),
        ('[bindings.values]\ncwd = { value = "abc" }', ".values.cwd: is bound already"),
        ('[bindings.values]\nescape = { value = "abc" }', ".values.escape: is bound already"),
        ('[bindings.values]\nBuild = { value = "abc" }', ".values.Build: expected a name"),
        ('[bindings.values]\nx = { env = "build" }', ".values.x.env[0]: expected the name of"),
        ('[bindings.values]\nx = { env = "GH_TOKEN" }', ".values.x.env: names a secret"),
        ('[bindings.values]\nx = { value = "" }', ".values.x.value: is empty"),
        ('[bindings.values]\nx = { value = "a\\nb" }', ".values.x.value: holds the character U+000A"),
        ('[bindings.values]\nx = { value = "⟦cwd⟧" }', ".values.x.value: must not hold ⟦ or ⟧"),
        ("[[bindings.rules]]\nbefore = 'abc'", ".rules[0]: lacks bind: a shape"),
        ("[[bindings.rules]]\nbind = 'pidd'\nbefore = 'abc'", ".rules[0].bind: names nothing that is bound"),
        ("[[bindings.rules]]\nbind = 'pid'", ".rules[0]: says too little of its place"),
        ("[[bindings.rules]]\nbind = 'pid'\nbefore = '   :'", ".rules[0]: says too little of its place"),
        ("[[bindings.rules]]\nbind = 'pid'\nbefor = 'abc'", ".rules[0].befor: there is no such setting"),
        ("[bindings]\nrules = 1", ".rules: expected a list"),
        ("[bindings]\nrules = [1]", ".rules[0]: expected a table"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(project: Project, text: str, message: str) -> None:
    project.write(text)

    with pytest.raises(ConfigError) as refused:
        project.load()

    assert f"cortex-replay.toml: bindings{message}" in str(refused.value)


def test_a_key_is_no_value(project: Project) -> None:
    project.write('[bindings.values]\nx = { value = "sk-ant-api03-Zk3vQx8LmN2pR7tY5wB9cD1f" }')

    with pytest.raises(ConfigError, match="a key does not belong in a configuration"):
        project.load()


def test_only_a_project_says_what_is_bound(tmp_path: Path) -> None:
    """One store must mean the same to everybody."""
    own = tmp_path / "cortex-replay/config.toml"
    own.parent.mkdir()
    own.write_text("[bindings]\noff = ['date']")
    file = find_user_config({"XDG_CONFIG_HOME": str(tmp_path)})
    assert file is not None

    with pytest.raises(ConfigError, match="bindings: is for a project to say"):
        LayerReader(file, "/", {}).read()


def test_a_normaliser_leaves_placeholders_alone() -> None:
    """Else a stored request would not keep its key."""
    rules = KeyRules({"number": Normaliser("[0-9]+", "<n>"), "name": Normaliser("cwd", "<x>")})
    request, names = rules.apply(LlmRequest("m", system="⟦cwd⟧/7 ⟦uuid#1⟧ cwd ⟦1⟧ ⟦cwd"))

    assert request.system == "⟦cwd⟧/<n> ⟦uuid#1⟧ <x> ⟦<n>⟧ ⟦<x>"
    assert names == ["number", "name"]
    assert rules.apply(request)[0] is request
