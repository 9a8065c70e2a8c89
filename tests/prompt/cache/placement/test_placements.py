"""What a run would have cost with other markers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.placement.hindsight import Hindsight, HindsightPlan, Times
from cortex_replay.prompt.cache.placement.placements import compare_placements, marks_of
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


def test_an_hour_for_the_last_bit_carries_all_of_it_over_a_pause() -> None:
    """A conversation goes on after ten minutes. Only what is new before the pause is written for an hour."""
    turns = [block(f"turn {i}", 100) for i in range(10)]
    times = [*range(5), *range(600, 605)]
    calls = [call(at, block("policy", 4000), *turns[: i + 1]) for i, at in enumerate(times)]

    best = compare_placements(calls, Tariff()).best

    assert [outcome.write_1h for outcome in best.outcomes] == [0, 0, 0, 0, 100, *[0] * 5]
    written = 4100 * 1.25 + 3 * 125 + 200 + 4 * 125 + 100  # the last turn is not read again
    assert best.cost.value == written + sum(4100 + 100 * i for i in range(9)) / 10


def test_calls_at_once_do_not_all_write() -> None:
    """Nobody can read what is not there yet; one writes it for those who come later."""
    times = [*range(10), 20]
    calls = [call(at, block("policy", 4000, SHORT), ready=15) for at in times]

    found = compare_placements(calls, Tariff())

    assert found.given.cost.value == 10 * 5000 + 400
    assert found.best.cost.value == 5000 + 9 * 4000 + 400


def test_what_another_call_is_writing_is_not_written_again() -> None:
    """The last one will read what the first one writes; those between them come too early for it."""
    policy, deep = block("policy", 4000), block("deep", 4000)
    calls = [call(0, policy, deep, ready=9)]
    calls += [call(at, policy, block(f"own {at}", 10), ready=9) for at in range(1, 9)]
    calls += [call(10, policy, deep)]

    best = compare_placements(calls, Tariff()).best

    assert best.cost.value == 8000 * 1.25 + 8 * 4010 + 800


def test_a_long_prompt_gets_a_second_marker_to_be_found_by() -> None:
    """A marker looks back over twenty blocks, and there are thirty new ones."""
    start, rest = [block(f"turn {i}", 500) for i in range(5)], [block(f"more {i}", 500) for i in range(30)]
    calls = [call(0, *start), call(10, *start, *rest), call(20, *start, *rest)]

    best = compare_placements(calls, Tariff()).best

    assert best.cost.value == 2500 * 1.25 + 250 + 15000 * 1.25 + 1750
    assert best.is_least


def test_of_more_places_than_markers_those_that_save_most_are_kept() -> None:
    """A prompt of six blocks, and twelve later ones that part from it behind each of them."""
    whole = [block(f"part {i}", 1000) for i in range(6)]
    calls = [call(0, *whole)]
    calls += [call(10 + i, *whole[: 1 + i % 6], block(f"own {i}", 10)) for i in range(12)]

    best = compare_placements(calls, Tariff()).best

    assert all(len(marks_of(asked)) <= 4 for asked in best.calls)
    assert not any(reason.why == "refused" for outcome in best.outcomes for reason in outcome.reasons)
    # The first call leaves four of six entries. The other two are written when they are asked for.
    assert [outcome.write_5m for outcome in best.outcomes] == [6000, 1000, 1000, *[0] * 10]
    assert [outcome.read for outcome in best.outcomes[3:7]] == [3000, 4000, 5000, 6000]


def test_thinking_takes_no_marker_so_the_block_before_it_does() -> None:
    """Ten calls go on differently behind a thought."""
    thought = CacheBlock("thought", Place.MESSAGES, "hm", 700, kind="thinking")
    calls = [call(i, block("policy", 4000), thought, block(f"own {i}", 10)) for i in range(10)]

    best = compare_placements(calls, Tariff()).best

    assert markers(best.calls[0]) == {"policy": "5m"}
    assert best.cost.value == 5000 + 9 * 400 + 10 * 710


def test_what_is_too_short_to_be_cached_gets_no_marker() -> None:
    """Ten calls share one token less than the model asks for: nothing can be saved, and that is known."""
    calls = [call(i, block("policy", 511), block(f"own {i}", 4000)) for i in range(10)]

    found = compare_placements(calls, Tariff())

    assert found.best.calls == found.no_marker.calls
    assert found.best.is_least


def test_a_plan_that_is_dearer_than_given_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the planner says: what it plans is simulated before it is believed."""
    calls = [call(i, block("policy", 4000, SHORT), block(f"own {i}", 4000)) for i in range(10)]

    def plan(_: Hindsight, group: Sequence[int], times: Times, *, bridge: bool = False) -> HindsightPlan:
        return HindsightPlan({j: {1: LONG} for j in group}, cost=0, is_least=True)

    monkeypatch.setattr(Hindsight, "plan", plan)
    found = compare_placements(calls, Tariff())

    assert found.best.cost == found.given.cost
    assert found.best.calls == found.given.calls
    assert not found.best.is_least


def test_providers_that_cache_by_themselves_stay_as_they_are() -> None:
    """Their calls have no markers to place. A marker of Anthropic's that nobody reads again is left out."""
    calls = [
        CacheCall("openai", "gpt-4o", 0, (block("policy", 4000),)),
        CacheCall("anthropic", "claude-opus-5", 1, (block("policy", 4000, SHORT),)),
        CacheCall("openai", "gpt-4o", 2, (block("policy", 4000),)),
    ]

    found = compare_placements(calls, Tariff())

    assert [one.read for one in found.best.outcomes] == [0, 0, 3968]
    assert found.no_marker.cost == found.best.cost
    assert found.to_dict()["best"] == {
        "name": "best",
        "amount": "10016",
        "unit": "tokens",
        "currency": None,
        "read": 3968,
        "is_least": True,
    }
