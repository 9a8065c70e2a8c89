"""The simulator does what the golden runs say, which were worked out by hand: ``golden/README.md``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import BlockKind, CacheBlock, CacheCall, CacheOutcome
from cortex_replay.prompt.cache.simulator import simulate, simulator_for
from cortex_replay.prompt.policy import CachePolicy

FOLDER = Path(__file__).parent / "golden"
RUNS = [
    pytest.param(run, id=f"{path.stem}: {run['name']}")
    for path in sorted(FOLDER.glob("*.toml"))
    for run in tomllib.loads(path.read_text(encoding="utf-8"))["run"]
]
KINDS: tuple[BlockKind, ...] = ("", "user", "tool_use", "tool_result", "thinking")


@pytest.mark.parametrize("run", RUNS)
def test_a_golden_run(run: dict[str, Any]) -> None:
    calls = [call_of(call, run["model"]) for call in run["call"]]

    outcomes = simulate(simulator_for("anthropic"), calls)

    found = [describe(outcome, call) for outcome, call in zip(outcomes, run["call"], strict=True)]
    assert found == [expect(call) for call in run["call"]]
    assert [outcome.tokens for outcome in outcomes] == [call.tokens for call in calls]


def call_of(call: dict[str, Any], model: str) -> CacheCall:
    return CacheCall(
        provider="anthropic",
        model=call.get("model", model),
        at=seconds(call["at"]),
        ready=seconds(call["ready"]) if "ready" in call else None,
        blocks=tuple(
            block
            for place in Place
            for text in call.get(place.name.lower(), ())
            for block in blocks(text, place)
        ),
        settings={Place[name.upper()]: value for name, value in call.get("settings", {}).items()},
        automatic=CachePolicy(call.get("automatic", "none")),
    )


def blocks(text: str, place: Place) -> Iterator[CacheBlock]:
    word, size, *rest = text.split()
    marker = next((CachePolicy(time) for time in ("5m", "1h") if time in rest), CachePolicy.NONE)
    kind = next((kind for kind in KINDS if kind and kind in rest), KINDS[0])
    for name in names(word):
        yield CacheBlock(name.partition("~")[0], place, f"text of {name}", int(size), marker, kind)


def names(word: str) -> list[str]:
    """``turn3..turn5`` are three names."""
    found = re.fullmatch(r"([a-z]+)(\d+)\.\.\1(\d+)", word)
    return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)] if found else [word]


def seconds(clock: str) -> float:
    minutes, _, rest = clock.partition(":")
    return int(minutes) * 60 + int(rest)


def describe(outcome: CacheOutcome, call: dict[str, Any]) -> dict[str, Any]:
    counts: dict[str, Any] = {
        name: getattr(outcome, name) for name in ("read", "write_5m", "write_1h", "fresh")
    }
    reasons = [f"{reason.why}: {reason.block} {reason.tokens}" for reason in outcome.reasons]
    return counts | ({"why": reasons} if "why" in call else {})


def expect(call: dict[str, Any]) -> dict[str, Any]:
    counts: dict[str, Any] = {name: call.get(name, 0) for name in ("read", "write_5m", "write_1h", "fresh")}
    return counts | ({"why": call["why"]} if "why" in call else {})
