"""Several machines record one run over S3, here in one process: one call per answer, and all is collected.

``integration/remote/test_fleet.py`` does the same with 64 processes, and kills some.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
from click.testing import CliRunner

from cortex_replay import LlmRequest, RecordingAdapter, ReplayAdapter
from cortex_replay.cli.main import main
from cortex_replay.testing import ScriptedAdapter
from tests.sampling import IS_TORTURE

MODEL: Final = "counting-1"
WORKERS: Final = 8 if IS_TORTURE else 3
QUESTIONS: Final = 40 if IS_TORTURE else 5
SEEDS: Final = range(5 if IS_TORTURE else 1)

Plan = list[tuple[str, int]]
"""Questions, and how often each is asked."""
Said = dict[tuple[str, int], set[str]]


def plans(random: Random) -> list[Plan]:
    """What each worker asks: overlapping questions, in an order of its own, some of them twice."""
    pool = [(f"What is {number}?", random.choice((1, 1, 2))) for number in range(QUESTIONS * 3 // 2)]
    return [random.sample(pool, QUESTIONS) for _ in range(WORKERS)]


def request_for(question: str) -> LlmRequest:
    return LlmRequest(MODEL, messages=question, max_tokens=64)


@pytest.mark.parametrize("seed", SEEDS)
def test_machines_ask_once_and_nothing_is_lost(
    seed: int, tmp_path: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    said: Said = {}
    secret = "a name that only the workers know"

    def answer(request: LlmRequest) -> str:
        question = request.messages[-1].content
        assert isinstance(question, str)
        calls[question] += 1
        return f"{question} Call {calls.total()}."

    def machine(name: str) -> Path:
        project = tmp_path / name
        project.mkdir()
        (project / "cortex-replay.toml").write_text(f'store = "llm"\n[remote]\nurl = "{s3_url}"\n')
        return project

    async def work(place: int, plan: Plan) -> None:
        inner = ScriptedAdapter(answer)
        async with RecordingAdapter(inner, machine(f"worker-{place}") / "llm") as recorder:

            async def ask(question: str, times: int) -> None:
                for n in range(times):
                    got = await recorder.complete(request_for(question))
                    said.setdefault((question, n), set()).add(got.text)

            await asyncio.gather(*(ask(question, times) for question, times in plan))

    async def work_all(made: list[Plan]) -> None:
        await asyncio.gather(*(work(place, plan) for place, plan in enumerate(made)))

    made = plans(Random(seed))
    monkeypatch.setenv("CORTEX_REPLAY_RUN", secret)
    asyncio.run(work_all(made))
    monkeypatch.delenv("CORTEX_REPLAY_RUN")
    wanted = {(question, n) for plan in made for question, times in plan for n in range(times)}

    assert calls == Counter(question for question, _ in wanted)
    assert said.keys() == wanted
    assert {place: answers for place, answers in said.items() if len(answers) > 1} == {}
    collector = machine("collector")
    monkeypatch.chdir(collector)
    done = CliRunner().invoke(main, ["collect", secret, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["conflicts"] == []
    assert _replayed(collector / "llm", wanted) == said


def _replayed(store: Path, wanted: set[tuple[str, int]]) -> Mapping[tuple[str, int], set[str]]:
    llm = ReplayAdapter(store).sync
    return {place: {llm.complete(request_for(place[0])).text} for place in sorted(wanted)}
