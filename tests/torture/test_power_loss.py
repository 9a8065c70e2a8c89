"""A loss of power at any instant, with what was not synced lost, torn or out of order."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from cortex_replay import Store
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from tests.sampling import IS_TORTURE, sample
from tests.torture import traced
from tests.torture.plans import SCRATCH, assert_tidy, digests, fixture, sound_answers
from tests.torture.power_loss import State, Verdict, by_store, look
from tests.torture.strace import Event, trace

STUMBLES: Final = 600 if IS_TORTURE else 5
MOST: Final = 20_000 if IS_TORTURE else 300
MOST_WITHOUT_SYNC: Final = 300 if IS_TORTURE else 10
RECOVERED: Final = 1 if IS_TORTURE else 15
SYNCS: Final = {
    "all": "",
    "files": r"tmp$|\.add$|\.replace$",
    "folders": r"(store|fixtures|model-.|\.cortex-replay)$",
    "the answers": r"\.add$|\.replace$",
    "the journal": r"journal\.tmp$",
    "the index": r"index\.tmp$",
    "the folder of the journal": r"\.cortex-replay$",
    "the folder of the index": "^store$",
    "the folders of the answers": r"model-.$",
    "the folder of these": "fixtures$",
}


class Judge:
    """Puts a state on a real file system and opens it as a reader does."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        self.verdicts: dict[State, Verdict] = {}

    def __call__(self, state: State) -> Verdict:
        if state not in self.verdicts:
            self.put(state)
            self.verdicts[state] = self._look()
        return self.verdicts[state]

    def put(self, state: State) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for name, content in state:
            path = self.root.parent / name
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)

    def _look(self) -> Verdict:
        if not self.root.exists():
            return "there is no store"
        report = check_store(DirectorySource(self.root))
        if report.findings:
            return "; ".join(map(str, report.findings))
        return tuple(sorted(digests(self.root).values()))


def traced_stores(what: str, most: int, *rows: str) -> dict[str, list[Event]]:
    """What the traced program does to each of its stores."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (apt-get install strace)")
    with TemporaryDirectory(dir=SCRATCH) as folder:
        stores = (Path(folder) / "stores").resolve()
        stores.mkdir()
        try:
            return by_store(
                trace([traced.__file__, stores, what, f"{most}", *rows], stores, Path(folder) / "trace")
            )
        except OSError as error:
            pytest.skip(f"strace cannot trace here: {error}")


@pytest.fixture
def judge() -> Iterator[Judge]:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        yield Judge(Path(folder))


@pytest.fixture(scope="module")
def calm() -> list[Event]:
    return traced_stores("calm", 1)["calm"]


def test_commits_survive_a_loss_of_power(calm: list[Event], judge: Judge) -> None:
    """Whatever is on the disk is the set of before or of after, and what was committed is there."""
    outcome = look(calm, judge, Random(0), MOST)

    assert outcome.bad == []
    assert outcome.instants > 100
    assert len(outcome.states) > 50


@pytest.mark.parametrize(("way", "commit"), sample(product(traced.WAYS, ["first", "second"]), 1))
def test_so_do_commits_and_recoveries_after_kills_and_refusals(judge: Judge, way: str, commit: str) -> None:
    """At every call of a commit, and at two calls after each other; and the next writer can go on."""
    wrong: list[str] = []
    for name, events in traced_stores(f"{way} {commit}", STUMBLES if way == "stumbling" else 1000).items():
        outcome = look(events, judge, Random(0), MOST)
        if outcome.bad:
            wrong += [f"{name}: {len(outcome.bad)} bad states", *(f"  {bad}" for bad in outcome.bad[:2])]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)

    assert len(judge.verdicts) > 20
    for state in list(judge.verdicts)[::RECOVERED]:
        judge.put(state)
        before = sound_answers(judge.root)
        store = Store.open(judge.root)
        store.add(fixture("d next", "next"))
        store.commit()
        assert sound_answers(judge.root) == before | {"d next": "next"}
        assert_tidy(judge.root, abandoned=store.abandoned().answers)


@pytest.mark.parametrize("left_out", sample(SYNCS, 4))
def test_every_sync_is_needed(calm: list[Event], judge: Judge, left_out: str) -> None:
    """The same look at the same calls, with some or all of the fsyncs left out, finds bad states."""
    calls = [event for event in calm if event.call != "sync" or not re.search(SYNCS[left_out], event.path)]
    outcome = look(calls, judge, Random(0), MOST_WITHOUT_SYNC, is_enough=lambda found: bool(found.bad))

    assert len(calls) < len(calm)
    assert outcome.bad
