"""The calls of a test, replayed through the caches of their providers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from cortex_replay.engine.money import PriceList
from cortex_replay.history.calls import HistoryCall, times_of
from cortex_replay.history.replay import replay_calls
from cortex_replay.prompt.cache.checks import CheckedCalls
from cortex_replay.prompt.cache.costs import Tariff, reported_outcome
from cortex_replay.prompt.parts import goes_on
from cortex_replay.pytest_plugin.recorded_call import RecordedCall
from cortex_replay.types import LlmRequest

__all__ = ["replay_test", "tariff_for"]

_MOST_NAMED: Final = 5


def replay_test(
    calls: Sequence[RecordedCall], clean: Callable[[str], str], *, is_replay: bool
) -> CheckedCalls:
    """What the caches do with the calls of a test.

    They come at the times at which they were recorded if that was in one run, and else one second after the
    other. A call that failed while it was recorded does not count; one that nothing is recorded for does.

    Args:
        calls: What the test asked and got.
        clean: Takes secrets out of a text, since a failure shows how a block changed.
        is_replay: Whether a call without an answer is a miss.

    Raises:
        ValueError: There are none, or how a model is cached is not known.
    """
    asked = [(call, call.request) for call in calls if call.request is not None]
    kept = [(call, request) for call, request in asked if call.is_answered or is_replay]
    if not kept:
        raise ValueError("this test has asked no model yet: assert behind its calls")
    replay = replay_calls(_at_their_times(kept))
    left_out = [row.recorded for row in replay.calls if row.call is None]
    if any(goes_on(call.request) for call in left_out):
        raise ValueError(
            "a call goes on from a response of no earlier call, so its whole prompt is not known"
        )
    unknown = sorted({call.model for call in left_out})
    if unknown:
        named = ", ".join(unknown[:_MOST_NAMED])
        raise ValueError(f"how {named} is cached is not known, so its cost is not known either")
    missed = sum(not call.is_answered for call, _ in kept)
    return CheckedCalls(
        [row.call for row in replay.calls if row.call is not None],
        [row.outcome for row in replay.calls if row.outcome is not None],
        lambda digest: clean(replay.text_of(digest)),
        [reported_outcome(row.recorded.usage) for row in replay.calls],
        _note(missed, len(kept)),
    )


def tariff_for(checked: CheckedCalls, prices: PriceList, unit: Literal["money", "tokens"]) -> Tariff:
    """What calls are paid by.

    Raises:
        ValueError: There is no such unit, or a model has no price.
    """
    if unit == "tokens":
        return Tariff()
    if unit != "money":
        raise ValueError(f"unit is 'money' or 'tokens', not {unit!r}")
    unpriced = sorted({call.model for call in checked.calls} - prices.prices.keys())
    if unpriced:
        raise ValueError(
            f"no price is configured for {', '.join(unpriced[:_MOST_NAMED])}. Give it in cortex-replay.toml, "
            f'below [prices]: "{unpriced[0]}" = {{ input = …, output = … }}. Or count input tokens: '
            'assert_cache_cost(at_most=…, unit="tokens")'
        )
    return Tariff(prices.prices, prices.currency)


def _at_their_times(kept: Sequence[tuple[RecordedCall, LlmRequest]]) -> list[HistoryCall]:
    metas = [(call.answer.meta if call.answer is not None else None) or {} for call, _ in kept]
    times = [
        (None, None) if call.answer is None else times_of(call.answer, meta)
        for (call, _), meta in zip(kept, metas, strict=True)
    ]
    # Answers of several runs were asked days apart, and old ones do not say when: their order is what counts.
    is_one_run = len({str(meta.get("run")) for meta in metas}) == 1 and all(
        "asked_at" in meta for meta in metas
    )
    if not is_one_run or any(at is None for at, _ in times):
        times = [(float(i), None) for i in range(len(kept))]
    found = [
        HistoryCall(
            request=request,
            prompt_hash="",
            path="",
            answer=1,
            usage=call.usage,
            at=at,
            ready=ready,
            order=i,
            run="",
            scopes=(),
            meta=meta,
            said=call.answer,
        )
        for i, ((call, request), meta, (at, ready)) in enumerate(zip(kept, metas, times, strict=True))
    ]
    return sorted(found, key=lambda call: (call.at or 0.0, call.order))


def _note(missed: int, count: int) -> str:
    if not missed:
        return ""
    calls = "1 call was" if missed == 1 else f"{missed} calls were"
    return (
        f"{calls} not answered, of {count}: nothing is recorded for such a prompt. The section cortex-replay "
        "says what changed; record it again before you judge what it costs."
    )
