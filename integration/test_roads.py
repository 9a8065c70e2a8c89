"""aider, whose second run differs for a reason: its own commits are in the repository by then."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from integration.agents.agents import AGENTS
from integration.agents.machine import Machine, can_be_made
from integration.agents.upstream import agent_upstream


def test_both_roads_of_an_agent_are_kept_and_replay_follows_each(tmp_path: Path) -> None:
    """It says which calls vary, and in what; then it is replayed twice, in a fresh checkout elsewhere."""
    can_be_made()
    (aider,) = (agent for agent in AGENTS if agent.program == "aider")
    home, store = tmp_path / "here" / "mirabel", tmp_path / "store"
    origin = Machine(
        cwd=home / "notes-project",
        home=home,
        tmp=tmp_path / "here" / "scratch",
        user="mirabel",
        host="mirabels-laptop",
        zone="Europe/Berlin",
    )
    with agent_upstream() as upstream:
        recorded = origin.run("record", store, aider, "--again", "2", upstream=upstream.url)
        asked = len(upstream.asked)
    assert recorded.status == 0, recorded
    first, second = recorded.ledger["runs"]
    assert first["recorded"] + second["recorded"] == asked, recorded
    varying = recorded.ledger["varying"]
    assert varying, recorded
    assert not any(one["is_noise"] for one in varying), recorded
    assert any("notes.txt" in line for line in recorded.told.splitlines()), "the map has the note by now"

    once = shlex.join(aider.command)
    there = replace(
        origin, cwd=tmp_path / "there" / "checkout-7", user="norbert", host="buildbox-77", days=40
    )
    twice = replace(aider, command=("sh", "-c", f"{once} && {once}"))
    replayed = there.run("replay", store, twice, "--fail-on", "miss")

    assert replayed.status == 0, replayed
    calls = first["hits"] + first["recorded"] + second["hits"] + second["recorded"]
    assert (replayed.hits, replayed.ledger["live"]) == (calls, 0), replayed
