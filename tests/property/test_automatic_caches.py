"""Laws of caches that work by themselves: whatever is asked, and in whatever order."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, Provider
from cortex_replay.prompt.cache.simulator import simulate, simulator_for
from cortex_replay.prompt.policy import CachePolicy
from tests.property.strategies import effort

OLD, NEW = "gpt-4o", "gpt-5.6-luna"
CACHES: tuple[tuple[Provider, str], ...] = (
    ("openai", OLD),
    ("openai", NEW),
    ("gemini", "gemini-2.5-flash"),
    ("llamacpp", "llama3"),
)
seeds = st.integers(0, 2**64)


def prompt(dice: Random) -> tuple[CacheBlock, ...]:
    """Blocks from a small stock, so that prompts share starts and part."""
    size, changed = dice.choice((40, 500, 1100)), dice.randint(0, 9)
    markers = dice.choices((CachePolicy.NONE, CachePolicy.NONE, CachePolicy.EPHEMERAL_5M), k=9)
    return tuple(
        CacheBlock(f"{i}", Place.MESSAGES, f"{i}{'!' * (i == changed)} {size}", size + i, markers[i])
        for i in range(dice.randint(1, 9))
    )


def build(provider: Provider, model: str, seed: int, *, is_quick: bool = False) -> list[CacheCall]:
    """Calls one after the other: at once, or up to two days apart."""
    dice = Random(seed)
    calls, at = [], 0.0
    for _ in range(dice.randint(1, 7)):
        at += 0 if is_quick else dice.choice((0, 1, 599, 600, 1800, 86_400, 100_000))
        calls.append(
            CacheCall(
                provider,
                model,
                at,
                prompt(dice),
                ready=None if is_quick else dice.choice((None, at + 3, at + 700)),
                key="" if is_quick else dice.choice(("", "", "key")),
                retention=dice.choice(("", "24h", "in_memory")),
                adds_breakpoint=dice.random() < 0.8,
                reply=prompt(dice)[-1:],
            )
        )
    return calls


def shared(one: tuple[CacheBlock, ...], other: tuple[CacheBlock, ...]) -> int:
    """The size of what two prompts begin with."""
    tokens = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours.digest != theirs.digest:
            break
        tokens += ours.tokens
    return tokens


@pytest.mark.parametrize(("provider", "model"), CACHES)
@effort(60)
@given(seeds)
def test_the_counts_are_those_of_the_prompt(provider: Provider, model: str, seed: int) -> None:
    """They add up, nothing is read that no earlier call had, and a second time it is the same."""
    calls = build(provider, model, seed)
    outcomes = simulate(simulator_for(provider), calls)

    assert outcomes == simulate(simulator_for(provider), calls)
    for number, (call, outcome) in enumerate(zip(calls, outcomes, strict=True)):
        assert outcome.tokens == call.tokens
        assert min(outcome.read, outcome.write_5m, outcome.fresh) >= 0
        before = [earlier.blocks + earlier.reply for earlier in calls[:number]]
        assert outcome.read <= max((shared(call.blocks, blocks) for blocks in before), default=0)


@pytest.mark.parametrize(("provider", "model"), CACHES[:3])
@effort(60)
@given(seeds)
def test_text_at_the_end_never_makes_a_read_smaller(provider: Provider, model: str, seed: int) -> None:
    """Of llama.cpp it does: a prompt that shares a tenth or less with a slot goes to another."""
    *before, last = build(provider, model, seed)
    longer = replace(last, blocks=(*last.blocks, CacheBlock("end", Place.MESSAGES, "end", 700)))

    short, long = [simulate(simulator_for(provider), [*before, call])[-1] for call in (last, longer)]

    assert long.read >= short.read


@pytest.mark.parametrize(
    ("provider", "model", "minimum", "step"), [("openai", OLD, 1024, 128), (*CACHES[2], 2048, 1)]
)
@effort(60)
@given(seeds)
def test_while_nothing_is_dropped_the_longest_shared_start_is_read(
    provider: Provider, model: str, minimum: int, step: int, seed: int
) -> None:
    """Held against a search through all earlier prompts that were long enough."""
    calls = build(provider, model, seed, is_quick=True)

    for number, outcome in enumerate(simulate(simulator_for(provider), calls)):
        kept = [earlier.blocks for earlier in calls[:number] if earlier.tokens >= minimum]
        longest = max((shared(calls[number].blocks, blocks) for blocks in kept), default=0)
        assert outcome.read == (longest // step * step if longest >= minimum else 0)
