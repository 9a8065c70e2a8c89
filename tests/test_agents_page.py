"""The page of agents says what was measured, and its recipes are the commands that were run."""

from __future__ import annotations

import shlex

import pytest

from integration.agents.agents import AGENTS, Agent
from integration.agents.install import VERSIONS
from integration.agents.journey import PLACES
from integration.agents.measure import rows_in
from integration.agents.recipe import PAGE, recipe_of

TEXT = PAGE.read_text("utf-8")


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_all_calls_of_an_agent_hit_everywhere(agent: Agent) -> None:
    _, version, calls, *cells = rows_in(TEXT)[agent.title].removesuffix(" |").split(" | ")

    assert VERSIONS[agent.program].replace("==", "@").endswith(f"@{version}"), "run: make agents"
    assert cells == [f"{calls} of {calls}"] * len(PLACES)


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_a_recipe_is_what_was_run(agent: Agent) -> None:
    recipe = recipe_of(agent)
    command = f"-- {shlex.join(agent.command)}\n"

    assert f'cortex-replay record --store "$STORE" {command}' in recipe
    assert f'cortex-replay replay --store "$STORE" {command}' in recipe
    assert (
        f"install -g {VERSIONS[agent.program]}\n" in recipe
        or f"pip install {VERSIONS[agent.program]}\n" in recipe
    )
    assert [name for name in (*agent.variables, *agent.home) if name not in recipe] == []
    assert [label for label in agent.labels if f"`{label.rstrip(': ')}`" not in recipe] == []
