"""Whether a row of calls reads and costs what a test says, and which block is to blame if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Reason, Why
from cortex_replay.prompt.cache.costs import Cost, Tariff, add_up, decimal_text
from cortex_replay.prompt.cache.placement.advice import AdviceKind, advise
from cortex_replay.prompt.cache.placement.placements import compare_placements
from cortex_replay.prompt.cache.reasons import describe_reason
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.diff import short_diff, volatile_kind

__all__ = ["CacheCostExceeded", "CacheMissed", "CheckedCalls", "check_cost", "check_reads"]

_MOST_ROWS: Final = 12
_CHEAPER_ONLY: Final[frozenset[AdviceKind]] = frozenset(["5m", "no marker"])
"""What saves money and makes no call read more."""


@dataclass(frozen=True, slots=True)
class CheckedCalls:
    """Calls in their order, and what the caches do with them."""

    calls: Sequence[CacheCall]
    outcomes: Sequence[CacheOutcome]
    text_of: Callable[[str], str]
    """What a block says, by its digest."""
    reported: Sequence[CacheOutcome | None] = ()
    """What the provider said of each call, where it was recorded."""
    note: str = ""
    """What else the reader should know, as a paragraph."""


class CacheMissed(AssertionError):
    """The cache reads less of some prompts than a test asks for.

    ``share`` is what it reads, from 0 to 1; ``block`` and ``why`` say what most of the rest is paid for.
    """

    def __init__(self, message: str, share: float, block: str, why: Why | None) -> None:
        super().__init__(message)
        self.share = share
        self.block = block
        self.why = why


class CacheCostExceeded(AssertionError):
    """Some prompts cost more than a test allows.

    ``cost`` is what they cost; ``block`` and ``why`` say what most of that is paid for.
    """

    def __init__(self, message: str, cost: Cost, block: str, why: Why | None) -> None:
        super().__init__(message)
        self.cost = cost
        self.block = block
        self.why = why


@dataclass(frozen=True, slots=True)
class _Loss:
    """What is paid again for one reason."""

    reason: Reason
    calls: int
    cost: Cost
    index: int
    """The first call that it happened to."""


def check_reads(checked: CheckedCalls, at_least: float) -> None:
    """Assert that enough is read of all calls but the first, which can only write.

    Raises:
        CacheMissed: It is not.
        ValueError: There are fewer than two calls, or the share is none.
    """
    __tracebackhide__ = True
    if isinstance(at_least, bool) or not 0 <= at_least <= 1:
        raise ValueError(f"reads_at_least is a share from 0 to 1, not {at_least!r}")
    if len(checked.calls) < 2:
        raise ValueError(
            f"a cache needs two calls to read anything, and there is {len(checked.calls) or 'none'}"
        )
    whole = add_up(checked.outcomes[1:])
    share = whole.read / whole.tokens if whole.tokens else 0.0
    if whole.read >= Fraction(str(at_least)) * whole.tokens:
        return
    tariff = Tariff()
    loss = _largest_loss(checked, tariff, start=1)
    head = f"the prompt cache reads {_percent(share)} of these prompts; expected at least {at_least * 100:g}%"
    message = "\n\n".join(_paragraphs(checked, tariff, loss, head, is_cost=False))
    raise CacheMissed(message, share, *_blame(loss))


def check_cost(checked: CheckedCalls, tariff: Tariff, at_most: Fraction) -> None:
    """Assert that the prompts of calls cost no more than an amount, in the unit of a tariff.

    Raises:
        CacheCostExceeded: They do.
    """
    __tracebackhide__ = True
    cost = tariff.cost(checked.calls, checked.outcomes)
    if cost.value <= at_most:
        return
    loss = _largest_loss(checked, tariff, start=0)
    head = f"these prompts cost {cost}, more than {decimal_text(at_most)}"
    message = "\n\n".join(_paragraphs(checked, tariff, loss, head, is_cost=True))
    raise CacheCostExceeded(message, cost, *_blame(loss))


def _blame(loss: _Loss | None) -> tuple[str, Why | None]:
    return ("", None) if loss is None else (loss.reason.block, loss.reason.why)


def _largest_loss(checked: CheckedCalls, tariff: Tariff, start: int) -> _Loss | None:
    """The block and the reason that most is paid for."""
    found: dict[tuple[Why, str], _Loss] = {}
    for i, (call, outcome) in enumerate(zip(checked.calls, checked.outcomes, strict=True)):
        reasons = [reason for reason in outcome.reasons if reason.why != "first"]
        if i and outcome.reasons and not reasons:  # nothing of it is cached, as if it were another prompt
            reasons = list(_first_change(checked.calls[i - 1], call))
        for reason in reasons if i >= start else ():
            extra = tariff.rates(call.provider, call.model).cost_of_loss(outcome, reason.tokens)
            before = found.get((reason.why, reason.block)) or _Loss(
                Reason(reason.why, reason.block), 0, Cost(Fraction(0), tariff.unit, tariff.currency), i
            )
            found[reason.why, reason.block] = _Loss(
                Reason(reason.why, reason.block, before.reason.tokens + reason.tokens),
                before.calls + 1,
                Cost(before.cost.value + extra, tariff.unit, tariff.currency),
                before.index,
            )
    return max(found.values(), key=lambda loss: loss.cost.value, default=None)


def _first_change(before: CacheCall, call: CacheCall) -> Iterator[Reason]:
    """The first block that is not what it was in the call before."""
    tokens = call.tokens
    for old, new in zip(before.blocks, call.blocks, strict=False):
        if old.digest != new.digest:
            if old.name == new.name:
                yield Reason("changed", new.name, tokens)
            return
        tokens -= new.tokens


def _paragraphs(
    checked: CheckedCalls, tariff: Tariff, loss: _Loss | None, head: str, *, is_cost: bool
) -> Iterator[str]:
    if loss is None:
        is_read = any(outcome.read for outcome in checked.outcomes)
        why = "What is not read is new in each call." if is_read else "No call begins like an earlier one."
        yield f"{head}\n{why}"
    else:
        calls = "1 call" if loss.calls == 1 else f"{loss.calls:,} calls"
        yield (
            f"{head}\n{describe_reason(loss.reason)} ({calls}): {loss.reason.tokens:,} tokens were paid "
            f"again, which costs {loss.cost} more than reading them"
        )
        if diff := _diff(checked, loss):
            kind = volatile_kind(diff)
            yield diff if kind is None else f"{diff}\n\nWhat changed looks like {kind}."
    yield "\n".join(_rows(checked))
    if any(call.is_estimate for call in checked.calls):
        yield "Sizes that no provider counted are estimates: four bytes of text make a token."
    simulate = partial(simulate_run, text_of=checked.text_of)
    alternatives = compare_placements(checked.calls, tariff, simulate, outcomes=checked.outcomes)
    advice = advise(alternatives, tariff, simulate)
    if advice is not None and (is_cost or advice.kind not in _CHEAPER_ONLY):
        yield str(advice)
    if checked.note:
        yield checked.note


def _rows(checked: CheckedCalls) -> Iterator[str]:
    reported = checked.reported or [None] * len(checked.calls)
    rows = zip(checked.calls, checked.outcomes, reported, strict=True)
    for i, (call, outcome, said) in enumerate(rows, start=1):
        if i > _MOST_ROWS:
            yield f"... and {len(checked.calls) - _MOST_ROWS:,} more calls"
            return
        line = f"call {i} of {call.tokens:,} tokens: {_counts(outcome)}"
        yield line if said is None else f"{line}; the provider reported {_counts(said)}"


def _counts(outcome: CacheOutcome) -> str:
    written = outcome.write_5m + outcome.write_1h
    return f"{outcome.read:,} read, {written:,} written, {outcome.fresh:,} fresh"


def _diff(checked: CheckedCalls, loss: _Loss) -> str:
    """How a block that changed became another one."""
    if loss.reason.why != "changed":
        return ""
    call = checked.calls[loss.index]
    for i, block in enumerate(call.blocks):
        if block.name != loss.reason.block:
            continue
        for earlier in reversed(checked.calls[: loss.index]):
            if earlier.model != call.model or i >= len(earlier.blocks):
                continue
            before = earlier.blocks[i]
            if before.digest != block.digest:
                texts = (checked.text_of(before.digest), checked.text_of(block.digest))
                return short_diff(*texts, before.name, block.name)
    return ""


def _percent(share: float) -> str:
    """Without pretending to have reached what was missed by a hair."""
    return f"{int(share * 1000) / 10:g}%"
