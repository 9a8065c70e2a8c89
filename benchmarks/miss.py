"""[miss]: what the explanation of one miss costs, in a store of 10,000 recordings that nobody has read yet.

The peer is what reading and checking every recording would cost, before any was compared.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from benchmarks.data import usual_fixtures, write_store
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest, Store
from cortex_replay.misses.explanation import explain_miss
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.fixture import Fixture

__all__ = ["run"]

_COUNT = 10_000
_ROUNDS = 5
_NUMBER = 4711
_HOW = "cortex-replay record -- pytest"


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say(f"writing a store of {_COUNT:,} fixtures, to miss one of them")
    root = folder / "store"
    recorded = [fixture.request for fixture in _written(root)][_NUMBER]
    if recorded is None:
        raise RuntimeError("a recording without its request")
    one_word = _edited(recorded, [200])
    three_words = _edited(recorded, [3, 200, -3])
    say("measuring the explanation of a miss")
    taken = smallest(
        _ROUNDS,
        {
            "one": lambda: _explained(root, one_word, recorded),
            "three": lambda: _explained(root, three_words, recorded),
            "full": lambda: cpu_of(lambda: Store.open(root)),
        },
    )
    what = f"a miss explained, {_COUNT:,} fixtures of 4 KiB"
    goal, peer = Goal("seconds", 0.1), "Store.open, full"
    return [
        Row("miss", f"{what}, one word", taken["one"], peer, taken["full"], goal, "call"),
        Row("miss", "  three words, at both ends", taken["three"], peer, taken["full"], goal, "call"),
    ]


def _written(root: Path) -> list[Fixture]:
    fixtures = list(usual_fixtures(_COUNT))
    write_store(root, fixtures)
    return fixtures


def _edited(request: LlmRequest, places: list[int]) -> LlmRequest:
    words = request.messages[0].content.split(" ")
    for place in places:
        words[place] = "Oslo"
    return LlmRequest(request.model, request.system, " ".join(words), request.temperature, request.max_tokens)


def _explained(root: Path, asked: LlmRequest, recorded: LlmRequest) -> float:
    store = Store.open(root, verify="on-read")  # anew, so that nothing is remembered
    key = store.key(asked)
    redactor = Redactor()
    texts: list[str] = []
    taken = cpu_of(lambda: texts.append(explain_miss(store, asked, key, _HOW, redactor)))
    if store.path(*store.key(recorded)) not in texts[0]:
        raise RuntimeError("another recording was found")
    return taken
