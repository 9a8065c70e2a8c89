"""Gemini's cache, by runs that were worked out by hand from its documents.

Sources, read on 2026-11-16: https://ai.google.dev/gemini-api/docs/caching for the minimum by model, explicit
caches and their hour; the overview of Google Cloud's agent platform for the day that a prefix lives at most.
"""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome
from cortex_replay.prompt.cache.simulator import simulate
from cortex_replay.prompt.cache.simulators.gemini import GeminiCache

FLASH, PRO = "gemini-2.5-flash", "gemini-3.1-pro-preview"
HOUR = 3600.0


def block(name: str, tokens: int) -> CacheBlock:
    return CacheBlock(name, Place.MESSAGES, name, tokens)


def call(*blocks: CacheBlock, at: float = 0.0, model: str = FLASH, **fields: Any) -> CacheCall:
    return CacheCall("gemini", model, at, blocks, **fields)


def ask(*calls: CacheCall) -> CacheOutcome:
    outcomes = simulate(GeminiCache(), calls)
    assert [outcome.tokens for outcome in outcomes] == [call.tokens for call in calls]
    return outcomes[-1]


def whys(outcome: CacheOutcome) -> list[tuple[str, str]]:
    return [(reason.why, reason.block) for reason in outcome.reasons]


@pytest.mark.parametrize(
    ("model", "tokens", "read"),
    [(FLASH, 2047, 0), (FLASH, 2048, 2048), (FLASH, 2049, 2049), (PRO, 4095, 0), (PRO, 4096, 4096)],
)
def test_a_prompt_is_kept_from_the_minimum_of_its_model_on(model: str, tokens: int, read: int) -> None:
    prompt = block("system", tokens)

    outcome = ask(call(prompt, model=model), call(prompt, model=model, at=1))

    assert (outcome.read, outcome.fresh) == (read, tokens - read)
    assert whys(outcome) == ([] if read else [("too short", "")])


def test_what_is_shared_is_read_to_the_token() -> None:
    start = block("system", 3000), block("question", 77)

    outcome = ask(call(*start), call(*start, block("answer", 40), at=5))

    assert (outcome.read, outcome.fresh, outcome.reasons) == (3077, 40, ())


def test_a_changed_block_is_named() -> None:
    rest = block("rules", 3000)

    outcome = ask(call(block("Monday", 10), rest), call(block("Tuesday", 10), rest, at=5))

    assert (outcome.read, whys(outcome)) == (0, [("changed", "Tuesday")])


@pytest.mark.parametrize(("hours", "read"), [(23.999, 3000), (24, 0)])
def test_a_prompt_goes_a_day_after_it_was_made(hours: float, read: int) -> None:
    """Reading it in between does not make it live longer."""
    prompt = block("system", 3000)

    outcome = ask(call(prompt), call(prompt, at=20 * HOUR), call(prompt, at=hours * HOUR))

    assert outcome.read == read
    assert whys(outcome) == ([] if read else [("ttl", "system")])


def test_a_call_that_names_a_cache_reads_what_it_holds() -> None:
    """No more and no less, from the first call on: however short it is, and whatever is shared behind."""
    kept, question = block("document", 500), block("question", 3000)

    outcomes = simulate(GeminiCache(), [call(kept, question, explicit=1, at=at) for at in (0.0, 1.0)])

    assert [(outcome.read, outcome.fresh) for outcome in outcomes] == [(500, 3000)] * 2


@pytest.mark.parametrize(("seconds", "hours"), [(None, 1), (2 * HOUR, 2)])
def test_a_cache_ends_when_its_time_is_over(seconds: float | None, hours: int) -> None:
    """An hour by itself. Its making is paid as any input, and its reads do not keep it."""
    cache, document, question = GeminiCache(), block("document", 9000), block("question", 10)

    made = cache.keep(call(document), seconds)
    in_time = cache.ask(call(document, question, explicit=1, at=hours * HOUR - 1))
    late = cache.ask(call(document, question, explicit=1, at=hours * HOUR))

    assert (made.fresh, made.read) == (9000, 0)
    assert (in_time.read, in_time.fresh) == (9000, 10)
    assert (late.read, late.fresh, whys(late)) == (0, 9010, [("ttl", "document")])


def test_what_is_kept_is_paid_by_the_hour() -> None:
    """10,000 tokens for an hour and 4,000 for half of one, of which the second is over."""
    cache = GeminiCache()
    cache.keep(call(block("long", 10_000)), 3 * HOUR)
    cache.keep(call(block("short", 4_000)), HOUR / 2)

    assert cache.token_hours(HOUR) == 10_000 + 2_000
