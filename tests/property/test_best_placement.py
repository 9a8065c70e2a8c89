"""The best placement of markers: never dearer than given, and as cheap as any on small prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, strategies as st

from cortex_replay.prompt.breakpoints import MOST_BREAKPOINTS, Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.placement import placements
from cortex_replay.prompt.cache.placement.placements import compare_placements, mark, marks_of
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.policy import CachePolicy
from tests.property.strategies import effort

MODEL = "claude-opus-5"
MINIMUM = 512
SHORT, LONG = CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H
GAPS = (0, 1, 200, 299, 300, 400, 2000, 3599, 3600, 5000)
TARIFF = Tariff()


def build(seed: int, most_calls: int, most_blocks: int) -> list[CacheCall]:
    """Calls that begin like earlier ones and part from them, with some markers."""
    dice = Random(seed)
    prompts: list[list[CacheBlock]] = []
    calls, at = [], 0
    for _ in range(dice.randint(2, most_calls)):
        at += dice.choice(GAPS)
        blocks = list(dice.choice(prompts)) if prompts and dice.random() < 0.8 else []
        del blocks[dice.randint(0, len(blocks)) :]
        while not blocks or (len(blocks) < most_blocks and dice.random() < 0.8):
            size = dice.choice((100, MINIMUM, 1000, 3000))
            name, kind = str(dice.random()), "thinking" if dice.random() < 0.1 else ""
            blocks.append(CacheBlock(name, Place.MESSAGES, name, size, kind=kind))  # type: ignore[arg-type]
        prompts.append(blocks)
        call = CacheCall("anthropic", MODEL, at, tuple(blocks), ready=at + dice.choice((0, 0, 0, 5, 250)))
        able = able_blocks(call)
        marked = dice.sample(able, dice.randint(0, min(len(able), MOST_BREAKPOINTS)))
        calls.append(mark(call, dict.fromkeys(marked, dice.choice((SHORT, LONG)))))
    return calls


def able_blocks(call: CacheCall) -> list[int]:
    """The blocks that can carry a marker."""
    return [i for i, block in enumerate(call.blocks) if block.kind != "thinking"]


def placed(call: CacheCall) -> Iterator[CacheCall]:
    """A call with every set of markers that the provider takes."""
    for count in range(MOST_BREAKPOINTS + 1):
        for chosen in combinations(able_blocks(call), count):
            for hours in range(count + 1):
                yield mark(call, dict(zip(chosen, [LONG] * hours + [SHORT] * (count - hours), strict=True)))


def least_cost(calls: list[CacheCall]) -> Fraction:
    """By trying everything."""
    every = product(*(list(placed(call)) for call in calls))
    return min(TARIFF.cost(row, simulate_run(row)).value for row in every)


@given(st.integers(0, 10**9))
@effort(6)
def test_on_small_prompts_it_is_the_best_of_all(seed: int) -> None:
    calls = build(seed, most_calls=3, most_blocks=3)

    best = compare_placements(calls, TARIFF).best

    assert best.cost.value == least_cost(calls)
    assert best.is_least


@given(st.integers(0, 10**9))
@effort(16)
def test_it_is_never_dearer_than_given_and_a_request_that_is_taken(seed: int) -> None:
    calls = build(seed, most_calls=8, most_blocks=30)

    found = compare_placements(calls, TARIFF)

    assert found.best.cost.value <= min(found.given.cost.value, found.no_marker.cost.value)
    assert list(found.best.outcomes) == simulate_run(found.best.calls)
    for asked, call in zip(found.best.calls, calls, strict=True):
        assert len(marks_of(asked)) <= MOST_BREAKPOINTS
        assert [replace(block, marker=CachePolicy.NONE) for block in asked.blocks] == [
            replace(block, marker=CachePolicy.NONE) for block in call.blocks
        ]


@given(st.integers(0, 10**9))
@effort(6)
def test_what_is_planned_and_not_tried_says_that_it_is_the_best_only_when_it_is(seed: int) -> None:
    calls = build(seed, most_calls=3, most_blocks=3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placements, "_MOST_TRIED", 0)
        best = compare_placements(calls, TARIFF).best

    if best.is_least:
        assert best.cost.value == least_cost(calls)
