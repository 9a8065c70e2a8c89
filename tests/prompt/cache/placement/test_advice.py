"""The one change that would have saved most."""

from __future__ import annotations

from fractions import Fraction

from cortex_replay.config import Price
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, Provider
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.placement.advice import Advice, advise
from cortex_replay.prompt.cache.placement.placements import compare_placements
from cortex_replay.prompt.policy import CachePolicy

SHORT, LONG, NONE = CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H, CachePolicy.NONE
MODEL = "claude-opus-5"


def system(name: str, text: str, tokens: int, marker: CachePolicy = NONE) -> CacheBlock:
    return CacheBlock(f"block {name!r}", Place.SYSTEM, text, tokens, marker)


def question(at: float) -> CacheBlock:
    return CacheBlock("turn 1 (user)", Place.MESSAGES, f"question {at}", 100)


def ask(at: float, *blocks: CacheBlock, provider: Provider = "anthropic", model: str = MODEL) -> CacheCall:
    return CacheCall(provider, model, at, blocks)


def advice_on(calls: list[CacheCall], tariff: Tariff | None = None) -> Advice | None:
    tariff = tariff or Tariff()
    return advise(compare_placements(calls, tariff), tariff)


def test_the_block_that_changes_belongs_behind_what_is_cached() -> None:
    """The clock stands before the catalogue, so the catalogue is written with every call."""
    calls = [
        ask(
            at,
            system("policy", "p", 1000, SHORT),
            system("clock", f"{at}", 20),
            system("catalogue", "c", 4000, SHORT),
            question(at),
        )
        for at in (0, 10, 20, 30)
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block, advice.changes) == ("move", "block 'clock'", 3)
    # From then on 5,000 tokens are written once and read three times; the clock is paid in full.
    assert advice.cost.value == 5000 * 1.25 + 3 * 500 + 4 * 120
    now = 5020 * 1.25 + 3 * (100 + 4020 * 1.25) + 4 * 100
    assert advice.saving.value == now - advice.cost.value
    assert str(advice) == (
        "Move block 'clock' behind everything that is cached: it changed 3 times. "
        f"That saves {advice.saving}, {advice.share:.0%} of what the run costs."
    )


def test_a_block_that_carries_the_marker_leaves_it_behind() -> None:
    """Nothing is cached behind it, so the marker is what has to move."""
    calls = [
        ask(at, system("catalogue", "c", 4000), system("clock", f"{at}", 20, SHORT), question(at))
        for at in (0, 10, 20)
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("move marker", "block 'clock'")
    assert advice.cost.value == 4000 * 1.25 + 2 * 400 + 3 * 120
    assert str(advice).startswith(
        "Move the cache marker on block 'clock' to the block before it: block 'clock' changed 2 times. "
    )


def test_a_tool_has_no_other_place_and_is_to_stay_as_it_is() -> None:
    calls = [
        ask(
            at,
            CacheBlock("tool 'search'", Place.TOOLS, f"today is {at}", 50),
            system("policy", "p", 4000, SHORT),
            question(at),
        )
        for at in (0, 10, 20)
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("keep", "tool 'search'")
    assert str(advice).startswith("Keep tool 'search' as it is: it changed 2 times. That saves ")


def test_a_marker_that_is_missing_is_named_by_the_block_before_it() -> None:
    """Two conversations share the policy, and nobody marked it."""
    calls = [
        ask(at, system("policy", "p", 4000), CacheBlock(f"turn {at}", Place.MESSAGES, text, 900, SHORT))
        for at, text in ((0, "a"), (10, "b"), (20, "c"))
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("marker", "block 'policy'")
    assert advice.cost.value == 4900 * 1.25 + 2 * (400 + 900 * 1.25)


def test_an_hour_is_advised_where_five_minutes_are_over() -> None:
    calls = [ask(at, system("policy", "p", 4000, SHORT), question(at)) for at in (0, 600, 1200, 1800)]

    advice = advice_on(calls)

    assert advice is not None
    assert advice.kind == "1h"
    assert advice.cost.value == 8000 + 3 * 400 + 4 * 100


def test_markers_that_only_cost_are_to_be_left_out() -> None:
    calls = [ask(at, system("policy", "p", 4000, LONG), question(at)) for at in (0, 7200)]

    advice = advice_on(calls)

    assert advice is not None
    assert advice.kind == "no marker"
    assert advice.cost.value == 2 * 4100


def test_nothing_is_advised_that_saves_nothing() -> None:
    calls = [ask(at, system("policy", "p", 4000, SHORT), question(at)) for at in (0, 10, 20)]

    assert advice_on(calls) is None
    assert advice_on(calls[:1]) is not None  # one call alone: the marker only costs
    assert advice_on([]) is None


def test_a_provider_that_caches_by_itself_reads_from_the_start() -> None:
    """There is no marker to stand behind, so the end of the prompt is meant."""
    calls = [
        ask(
            at,
            system("clock", f"{at}", 20),
            system("catalogue", "c", 4000),
            provider="openai",
            model="gpt-4o",
        )
        for at in (0, 10, 20)
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("move", "block 'clock'")
    assert advice.cost.value == 3 * 4020 - 2 * 3968 * 0.5


def test_with_prices_it_is_in_money() -> None:
    calls = [ask(at, system("policy", "p", 4000, SHORT), question(at)) for at in (0, 600, 1200, 1800)]

    advice = advice_on(calls, Tariff({MODEL: Price(5, 25)}, "USD"))

    assert advice is not None
    assert advice.to_dict() == {
        "kind": "1h",
        "block": None,
        "changes": 0,
        "cost": {"amount": "0.048", "unit": "money", "currency": "USD"},
        "saving": {"amount": "0.054", "unit": "money", "currency": "USD"},
        "share": 0.5294,
        "sentence": "Set the cache markers to an hour instead of five minutes. "
        "That saves 0.0540 USD, 53% of what the run costs.",
    }


def test_an_hour_is_too_long_where_calls_follow_each_other() -> None:
    calls = [ask(at, system("catalogue", "c", 4000, LONG), question(at)) for at in (0, 10, 20)]
    apart = [ask(60 * at, *call.blocks) for at, call in zip((0, 10, 20), calls, strict=True)]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("5m", "")
    assert advice.saving.value == 4000 * (2 - Fraction(5, 4))
    assert advice_on(apart) is None


def test_a_block_to_move_comes_before_a_shorter_time() -> None:
    """Recorded calls follow each other; those of the program may not."""
    calls = [
        ask(at, system("clock", f"{at}", 20, LONG), system("catalogue", "c", 4000, LONG), question(at))
        for at in (0, 10, 20)
    ]

    advice = advice_on(calls)

    assert advice is not None
    assert (advice.kind, advice.block) == ("move", "block 'clock'")
