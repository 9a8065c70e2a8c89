"""``learn`` with agents that others wrote, whose tools print what changes from run to run.

The rules that come with cortex-replay for these agents are switched off: ``learn`` finds each by itself.
"""

from __future__ import annotations

import pytest

from integration.agents.agents import AGENTS, Agent
from integration.agents.journey import Journey, set_out
from integration.agents.machine import can_be_made

LEARNS = {
    "codex": ["Chunk ID: ", "Original token count: ", "Wall time: "],
    "gemini": ["Process Group PGID: "],
}


@pytest.fixture(scope="module", params=LEARNS)
def journey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    can_be_made()
    agent: Agent = next(one for one in AGENTS if one.program == request.param)
    base = tmp_path_factory.mktemp(agent.program)
    (base / "store").mkdir()
    (base / "store/cortex-replay.toml").write_text('[bindings]\noff = ["programs"]\n')
    made = set_out(agent, base)
    assert made.recording.status == 0, made.recording
    return made


def test_what_differs_from_run_to_run_is_learned_and_then_all_calls_hit(journey: Journey) -> None:
    """Elsewhere, without a key, a network or a token; and then on another machine, 40 days later."""
    learned = journey.learn()
    assert learned.status == 0, learned
    assert journey.rules() == LEARNS[journey.agent.program], learned
    again = journey.learn()
    assert (again.status, journey.rules()) == (0, LEARNS[journey.agent.program]), again

    machine, replayed = journey.replay("all of it")
    assert replayed.status == 0, replayed
    ledger = replayed.ledger
    assert (replayed.hits, ledger["missed"], ledger["live"]) == (journey.calls, 0, 0), replayed
    assert journey.has_written(machine), replayed
