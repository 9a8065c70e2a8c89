"""Coding agents that others wrote: recorded once, then replayed on another machine and another day.

A scripted model behind their own API leads them through several turns: they write a file, read it and run a
command. No rule is written by hand.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.prompt.breakpoint_notes import restore_breakpoints
from cortex_replay.prompt.markers import marks_of
from integration.agents.agents import AGENTS, Agent
from integration.agents.journey import Journey, set_out
from integration.agents.machine import can_be_made
from integration.agents.recipe import follow
from integration.agents.upstream import agent_upstream


@pytest.fixture(scope="module", params=AGENTS, ids=str)
def journey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    can_be_made()
    agent: Agent = request.param
    made = set_out(agent, tmp_path_factory.mktemp(agent.program))
    assert made.recording.status == 0, made.recording
    assert made.recording.ledger["recorded"] == made.calls > 3, made.recording
    assert made.has_written(made.origin)
    return made


def test_all_calls_hit_on_another_machine(journey: Journey) -> None:
    """In another directory, with another HOME, user name, host name, time zone and kernel, 40 days later."""
    assert_replayed(journey)


def assert_replayed(journey: Journey) -> None:
    machine, replayed = journey.replay("all of it")

    assert replayed.status == 0, replayed
    ledger = replayed.ledger
    assert (replayed.hits, ledger["missed"], ledger["live"]) == (journey.calls, 0, 0), replayed
    assert journey.has_written(machine), replayed


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_a_newcomer_follows_the_recipe(agent: Agent, tmp_path: Path) -> None:
    with agent_upstream() as upstream:
        done = follow(agent, tmp_path, upstream.url)

    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("cortex-replay: ")]
    calls = len(upstream.asked)
    assert f"0 misses, {calls} recorded, {calls} live" in told[0]
    assert told[-1].startswith(f"cortex-replay: {calls} hits, 0 misses, 0 recorded, 0 live")


@pytest.mark.parametrize("program", ["claude", "opencode"])
def test_what_an_agent_tells_the_cache_is_in_its_recordings(program: str, tmp_path: Path) -> None:
    """Where it put its markers, and the blocks of its system prompt, as they are stored."""
    can_be_made()
    (agent,) = (one for one in AGENTS if one.program == program)
    made = set_out(agent, tmp_path)
    store = Store.open(made.store)
    found = [store.get(stored.model, stored.prompt_hash, stored.scope) for stored in store.list(scoped=True)]
    marked = [(one, one.request, (one.meta or {}).get("cache")) for one in found]

    assert len({(one.meta or {})["run"] for one in found}) == 1
    assert all("asked_at" in (one.meta or {}) for one in found)
    told = [(one, request, notes) for one, request, notes in marked if isinstance(notes, dict) and request]
    assert len(told) > 3
    for one, request, notes in told:
        assert "markers" in notes
        places = marks_of(restore_breakpoints(request, one.meta))
        assert len(places) == len(notes["markers"]), "each of them stands somewhere"  # type: ignore[arg-type]
        ends = [block["end"] for block in notes.get("blocks", [])]  # type: ignore[union-attr, call-overload, index]
        assert not ends or ends[-1] == len(request.system)
        shown = CliRunner().invoke(main, ["explain", one.key.prompt_hash, "--store", str(made.store)])
        assert shown.exit_code == 0, shown.output
        assert "no breakpoint was recorded" not in shown.output


def test_the_store_does_not_tell_of_the_machine_that_recorded(journey: Journey) -> None:
    assert list(journey.residue()) == []


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent.labels], ids=str)
def test_what_comes_with_us_is_what_is_learned(agent: Agent, tmp_path: Path) -> None:
    """An agent that nobody here knows prints ids, durations and counts, too."""
    can_be_made()
    made = set_out(agent, tmp_path, '[bindings]\noff = ["programs"]\n')

    learned = made.learn()

    assert learned.status == 0, learned
    assert sorted(made.rules()) == sorted(agent.labels)
    assert_replayed(made)


@pytest.mark.parametrize("program", ["claude", "opencode"])
def test_another_task_is_a_miss(program: str, tmp_path: Path) -> None:
    """What is bound is bound; everything else still misses."""
    can_be_made()
    (agent,) = (one for one in AGENTS if one.program == program)
    made = set_out(agent, tmp_path)
    command = (*agent.command[:-1], f"{agent.command[-1]}s")

    _, replayed = replace(made, agent=replace(agent, command=command)).replay("same place")

    assert replayed.ledger["missed"] > 0, replayed
    assert "Write a note" in replayed.told
