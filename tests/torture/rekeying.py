"""A store that gets other keys while others record into it."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from typing import Final

from cortex_replay import NoFixture, Store
from cortex_replay.errors import LlmError
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey
from cortex_replay.store.rekey import RekeyPlan, apply_rekey, plan_rekey
from cortex_replay.types import LlmRequest
from tests.builder import ask, fixture_of

RECORDERS: Final = 2
QUESTIONS: Final = 3
MOST_ANSWERS: Final = 3
REKEYS: Final = 4


class Warmer:
    """Stores every request with another temperature, and so under another key."""

    def fixture(self, fixture: Fixture) -> Fixture:
        assert fixture.request is not None
        request = replace(fixture.request, temperature=1.0)
        return replace(fixture, request=request, key=FixtureKey(request.model, request.prompt_hash()))

    def failure(self, failure: Exchange, fixture: Fixture) -> Exchange:
        return failure

    def exchange(self, exchange: Exchange) -> Exchange:
        return exchange


@dataclass
class Race:
    """What came of one race."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """How rekeys ended: done, colliding, or the name of an error."""
    lost: list[str] = field(default_factory=list)
    """Answers that were committed and are nowhere."""
    kept: int = 0


def race(root: Path, seed: int) -> Race:
    """Record and give other keys at once, and look at what is there afterwards."""
    Store.create(root)
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(RECORDERS + 1)
    recorders = [
        context.Process(target=_record, args=(root, gate, number, seed)) for number in range(RECORDERS)
    ]
    for process in recorders:
        process.start()
    found = Race()
    gate.wait()
    for _ in range(REKEYS):
        found.outcomes[_rekey(root)] += 1
    for process in recorders:
        process.join()
        if process.exitcode != 0:
            found.lost.append(f"a recorder failed ({process.exitcode})")
    found.lost += map(str, check_store(DirectorySource(root)).findings)
    store = Store.open(root)
    for number in range(RECORDERS):
        for question in range(QUESTIONS):
            request = _question(number, question)
            longest = max(len(_answers(store, one)) for one in (request, replace(request, temperature=1.0)))
            if longest == MOST_ANSWERS:
                found.kept += MOST_ANSWERS
            else:
                found.lost.append(f"{request.messages[0].content}: {longest} of {MOST_ANSWERS} answers")
    return found


def _rekey(root: Path) -> str:
    source = DirectorySource(root)

    def look() -> RekeyPlan:
        return plan_rekey(source, Warmer())

    try:
        return "colliding" if apply_rekey(source, look(), look).colliding else "done"
    except LlmError as error:
        return type(error).__name__


def _record(root: Path, gate: Barrier, number: int, seed: int) -> None:
    random = Random(f"{seed} {number}")
    todo = [question for question in range(QUESTIONS) for _ in range(MOST_ANSWERS)]
    random.shuffle(todo)
    counts: Counter[int] = Counter()
    gate.wait()
    for question in todo:
        counts[question] += 1
        store = Store.open(root, verify="on-read")
        answers = [Answer(f"{seed} {n}") for n in range(counts[question])]
        store.add(fixture_of(_question(number, question), *answers))
        store.commit()


def _question(number: int, question: int) -> LlmRequest:
    return ask(f"question {question} of {number}", model=f"model-{number}")


def _answers(store: Store, request: LlmRequest) -> tuple[Answer, ...]:
    try:
        return store.get(request.model, request.prompt_hash()).answers
    except NoFixture:
        return ()
