"""A loss of power, at every instant of a trace and with every order in which writes may reach the disk."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from integration.proof import traced_vcrpy
from integration.proof.figures import Row, Scale, Tell
from integration.proof.vcr_cassettes import VCRPY, load
from tests.torture.plans import SCRATCH
from tests.torture.power_loss import Outcome, State, Verdict, by_store, look
from tests.torture.roads import ROADS
from tests.torture.strace import trace
from tests.torture.test_creation import CreationJudge, traced_creation
from tests.torture.test_power_loss import Judge, traced_stores

__all__ = ["prove"]

_SEED: Final = 0


def prove(scale: Scale, tell: Tell) -> list[Row]:
    most = scale.pick(200, 5000, 20_000)
    total = 3 + len(ROADS)
    with TemporaryDirectory(dir=SCRATCH) as folder:
        judge = Judge(Path(folder))
        commits = look(traced_stores("calm", 1)["calm"], judge, Random(_SEED), most)
    tell(1, total)
    made = Outcome()
    for number, name in enumerate(ROADS):
        with TemporaryDirectory(dir=SCRATCH) as folder:
            (Path(folder) / "judged").mkdir()
            if name == "export":
                ROADS[name].prepare(Path(folder) / "judged/store")
            one = look(
                traced_creation(name),
                CreationJudge(Path(folder) / "judged", ROADS[name]),
                Random(_SEED),
                most,
            )
        made = made + one
        tell(2 + number, total)
    theirs = _vcrpy(scale, most)
    tell(total, total)
    return [
        _row("commits", "cortex-replay", "commits that add, replace and remove", commits),
        _row("creation", "cortex-replay", "a store that is made, in five ways", made),
        _row("vcrpy", VCRPY, "calls that are added to a cassette", theirs),
    ]


def _row(name: str, who: str, what: str, outcome: Outcome) -> Row:
    results = {"instants": outcome.instants, "different states": len(outcome.states), "bad": len(outcome.bad)}
    return Row(name, who, what, outcome.looks, results)


class _CassetteJudge(Judge):
    """Reads a cassette as vcrpy does."""

    def _look(self) -> Verdict:
        there = load(self.root / "cassette.yaml")
        if there is None:
            return "it cannot be read"
        found = (re.search(rb'"question (\d+)"', body) for body in there)
        return tuple(sorted((match[1].decode() for match in found if match), key=int))

    def put(self, state: State) -> None:
        super().put(state)
        self.root.mkdir(exist_ok=True)


def _vcrpy(scale: Scale, most: int) -> Outcome:
    with TemporaryDirectory(dir=SCRATCH) as name:
        folder = Path(name)
        (folder / "stores").mkdir()
        stores = (folder / "stores").resolve()
        program: list[str | Path] = [traced_vcrpy.__file__, stores, str(scale.pick(2, 5, 10))]
        events = by_store(trace(program, stores, folder / "trace"))["store"]
        (folder / "judged").mkdir()
        return look(events, _CassetteJudge(folder / "judged"), Random(_SEED), most)
