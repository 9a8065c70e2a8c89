"""What a run would have cost with other markers."""

from __future__ import annotations

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.placements import compare_placements, marks_of
from cortex_replay.prompt.policy import CachePolicy

SHORT, LONG = CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H


def block(name: str, tokens: int, marker: CachePolicy = CachePolicy.NONE) -> CacheBlock:
    return CacheBlock(name, Place.MESSAGES, name, tokens, marker)


def call(at: float, *blocks: CacheBlock, ready: float | None = None) -> CacheCall:
    return CacheCall("anthropic", "claude-opus-5", at, blocks, ready=ready)


def markers(asked: CacheCall) -> dict[str, str]:
    return {asked.blocks[i].name: str(time) for i, time in marks_of(asked).items()}


def test_the_marker_belongs_behind_what_the_calls_share() -> None:
    """Both write their own question, and neither finds what the other wrote."""
    calls = [call(at, block("policy", 4000), block(f"question {at}", 1000, SHORT)) for at in (0, 10)]

    found = compare_placements(calls, Tariff())

    assert found.given.cost.value == 2 * 5000 * 1.25
    assert found.no_marker.cost.value == 2 * 5000
    assert found.hour.cost.value == 2 * 5000 * 2
    assert found.best.cost.value == 4000 * 1.25 + 1000 + 400 + 1000
    assert [markers(asked) for asked in found.best.calls] == [{"policy": "5m"}, {"policy": "5m"}]
    assert found.best.is_least


def test_an_hour_is_worth_it_from_the_third_call_on() -> None:
    """It costs twice as much once, and five minutes are over each time."""
    for times, cost, marker in (
        ((0, 600), 8000, {}),
        ((0, 600, 1200), 8000 + 400 + 400, {"policy": "1h"}),
    ):
        found = compare_placements([call(at, block("policy", 4000, SHORT)) for at in times], Tariff())

        assert found.given.cost.value == len(times) * 5000
        assert found.best.cost.value == cost
        assert markers(found.best.calls[0]) == marker


def test_an_hour_at_the_deep_one_and_five_minutes_at_the_tail() -> None:
    """The tail is asked for again at once, the policy all morning."""
    rows = [(0, "a"), (10, "a"), (2000, "b"), (2010, "b"), (4000, "c"), (4010, "c")]
    calls = [call(at, block("policy", 4000, LONG), block(tail, 4000, LONG)) for at, tail in rows]

    best = compare_placements(calls, Tariff()).best

    assert markers(best.calls[0]) == {"policy": "1h", "a": "5m"}
    assert best.cost.value == 4000 * (2 + 5 * 0.1) + 3 * 4000 * 1.25 + 3 * 400


def test_calls_at_once_do_not_all_write() -> None:
    """Nobody can read what is not there yet; one writes it for those who come later."""
    calls = [call(at, block("policy", 4000, SHORT), ready=at + 5) for at in (0, 1, 2, 3, 10)]

    found = compare_placements(calls, Tariff())

    assert found.given.cost.value == 4 * 5000 + 400
    assert found.best.cost.value == 5000 + 3 * 4000 + 400


def test_a_long_prompt_gets_a_second_marker_to_be_found_by() -> None:
    """A marker looks back over twenty blocks, and there are thirty new ones."""
    start, rest = [block(f"turn {i}", 500) for i in range(5)], [block(f"more {i}", 500) for i in range(30)]
    calls = [call(0, *start), call(10, *start, *rest), call(20, *start, *rest)]

    best = compare_placements(calls, Tariff()).best

    assert best.cost.value == 2500 * 1.25 + 250 + 15000 * 1.25 + 1750
    assert best.is_least


def test_providers_that_cache_by_themselves_stay_as_they_are() -> None:
    """Their calls have no markers to place."""
    calls = [CacheCall("anthropic", "claude-opus-5", 0, (block("policy", 4000, SHORT),))]

    found = compare_placements(calls, Tariff())

    assert found.to_dict()["best"] == {
        "name": "best",
        "amount": "4000",
        "unit": "tokens",
        "currency": None,
        "read": 0,
        "is_least": True,
    }
