"""OpenAI's cache, by runs that were worked out by hand from its guide.

Source: https://developers.openai.com/api/docs/guides/prompt-caching, read on 2026-11-16. The steps of 128
stood there until the spring of 2026, and its example of a usage still has them: 2,006 tokens, 1,920 read.
"""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome
from cortex_replay.prompt.cache.simulator import simulate
from cortex_replay.prompt.cache.simulators.openai import OpenAiCache
from cortex_replay.prompt.policy import CachePolicy

OLD, NEW = "gpt-4o", "gpt-5.6-luna"
MINUTE, HOUR = 60.0, 3600.0


def block(name: str, tokens: int, *, marked: bool = False) -> CacheBlock:
    marker = CachePolicy.EPHEMERAL_5M if marked else CachePolicy.NONE
    return CacheBlock(name, Place.MESSAGES, name, tokens, marker)


def call(*blocks: CacheBlock, at: float = 0.0, model: str = OLD, **fields: Any) -> CacheCall:
    return CacheCall("openai", model, at, blocks, **fields)


def ask(*calls: CacheCall) -> CacheOutcome:
    """What the last of some calls finds; of each, the counts add up to its prompt."""
    outcomes = simulate(OpenAiCache(), calls)
    assert [outcome.tokens for outcome in outcomes] == [call.tokens for call in calls]
    return outcomes[-1]


def whys(outcome: CacheOutcome) -> list[tuple[str, str]]:
    return [(reason.why, reason.block) for reason in outcome.reasons]


@pytest.mark.parametrize(
    ("tokens", "read"),
    [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (1279, 1152), (1280, 1280), (2006, 1920)],
)
def test_the_same_prompt_again_is_read_in_steps(tokens: int, read: int) -> None:
    """What is cached is 1,024 tokens, 1,152, 1,280 and so on; a shorter prompt is not cached at all."""
    prompt = block("system", tokens)

    outcome = ask(call(prompt), call(prompt, at=1))

    assert (outcome.read, outcome.fresh) == (read, tokens - read)
    assert whys(outcome) == ([("too short", "")] if tokens < 1024 else [])


def test_the_first_call_finds_nothing_and_writing_is_free() -> None:
    outcome = ask(call(block("system", 5000)))

    assert outcome == CacheOutcome(fresh=5000, reasons=outcome.reasons)
    assert whys(outcome) == [("first", "system")]


def test_a_conversation_that_grows_reads_what_it_had() -> None:
    """1,000 + 200 tokens are shared: 1,152 of them in steps. The rest is new, which is no one's fault."""
    start = block("system", 1000), block("question", 200)

    outcome = ask(call(*start), call(*start, block("answer", 50), block("next", 30), at=30))

    assert (outcome.read, outcome.fresh, outcome.reasons) == (1152, 128, ())


def test_a_changed_block_ends_what_is_shared() -> None:
    tools, question = block("tools", 1300), block("question", 100)

    outcome = ask(
        call(tools, block("policy", 400), question), call(tools, block("policy 2", 400), question, at=9)
    )

    assert outcome.read == 1280
    assert [(r.why, r.block, r.tokens) for r in outcome.reasons] == [("changed", "policy 2", 500)]


def test_a_short_shared_start_is_not_read() -> None:
    """900 tokens are shared of prompts that are long enough themselves."""
    start = block("system", 900)

    outcome = ask(call(start, block("a", 300)), call(start, block("b", 300), at=1))

    assert outcome.read == 0
    assert whys(outcome) == [("changed", "b"), ("too short", "")]


def test_a_short_prompt_leaves_nothing_behind() -> None:
    outcome = ask(call(block("system", 1000)), call(block("system", 1000), block("question", 500), at=1))

    assert outcome.read == 0


@pytest.mark.parametrize(
    ("model", "retention", "seconds"),
    [
        ("gpt-4o", "", 10 * MINUTE),
        ("gpt-4o", "in_memory", 10 * MINUTE),
        ("gpt-5.1", "in_memory", 10 * MINUTE),
        ("gpt-5.1", "", 24 * HOUR),
        ("gpt-5.1", "24h", 24 * HOUR),
        ("gpt-5.5-pro", "", 24 * HOUR),
    ],
)
def test_a_prompt_is_kept_as_long_as_its_retention_says(model: str, retention: str, seconds: float) -> None:
    prompt = block("system", 2048)
    first = call(prompt, model=model, retention=retention)

    assert ask(first, call(prompt, model=model, at=seconds - 1)).read == 2048
    late = ask(first, call(prompt, model=model, at=seconds))
    assert (late.read, whys(late)) == (0, [("ttl", "system")])


def test_a_read_keeps_the_prompt_for_as_long_again() -> None:
    """It is inactivity that ends it: nine minutes twice are no eighteen minutes of it."""
    prompt = block("system", 2048)

    outcome = ask(call(prompt), call(prompt, at=9 * MINUTE), call(prompt, at=18 * MINUTE))

    assert outcome.read == 2048


def test_another_key_or_model_finds_nothing() -> None:
    prompt = block("system", 2048)
    first = call(prompt, key="ada")

    other_key = ask(first, call(prompt, key="bob", at=1))
    other_model = ask(first, call(prompt, model="gpt-4o-mini", key="ada", at=1))

    assert ask(first, call(prompt, key="ada", at=1)).read == 2048
    assert (other_key.read, whys(other_key)) == (0, [("other key", "system")])
    assert (other_model.read, whys(other_model)) == (0, [("other model", "system")])


def test_what_another_key_has_is_what_a_call_there_had() -> None:
    """Not the new text behind it; whichever of the others has most; and only while it is kept."""
    prompt, short = block("system", 2048), block("system", 1024)
    calls = [
        call(prompt, block("one", 100), key="ada"),
        call(short, block("two", 100), key="eve"),
        call(prompt, block("three", 100), key="bob", at=1),
    ]

    (reason,) = ask(*calls).reasons
    late = ask(calls[0], call(prompt, key="bob", at=HOUR))

    assert (reason.why, reason.tokens) == ("other key", 2048)
    assert whys(late) == [("first", "system")]


def test_another_model_does_not_have_what_is_too_short() -> None:
    prompt = block("system", 4)

    outcome = ask(call(prompt), call(prompt, model="gpt-4o-mini", at=1))

    assert [reason.why for reason in outcome.reasons] == ["first", "too short"]


def test_a_schema_stands_before_the_system_text() -> None:
    """The schema of an answer is put in front of the system text: another one splits there."""
    tools = CacheBlock("tools", Place.TOOLS, "tools", 1100)
    system = CacheBlock("system", Place.SYSTEM, "system", 1000)

    outcome = ask(
        call(tools, system, settings={Place.SYSTEM: "one"}),
        call(tools, system, settings={Place.SYSTEM: "two"}, at=1),
    )

    assert (outcome.read, whys(outcome)) == (1024, [("settings", "system")])


def test_a_schema_counts_without_tools() -> None:
    """It stands where the tools would stand, and they are not there."""
    asked = [call(block("turn 1", 2048), settings={Place.TOOLS: form}) for form in ("one", "two", "two")]

    assert ask(*asked[:2]).read == 0
    assert whys(ask(*asked[:2])) == [("settings", "turn 1")]
    assert ask(*asked).read == 2048


def test_a_call_that_runs_at_the_same_time_finds_nothing() -> None:
    prompt = block("system", 2048)
    first = call(prompt, ready=4.0)

    early, late = ask(first, call(prompt, at=3)), ask(first, call(prompt, at=4))

    assert (early.read, whys(early), late.read) == (0, [("not ready", "system")], 2048)


def test_of_two_that_run_at_the_same_time_the_faster_one_counts() -> None:
    prompt = block("system", 2048)

    outcome = ask(call(prompt, ready=4.0), call(prompt, at=1, ready=9.0), call(prompt, at=5))

    assert outcome.read == 2048


def test_the_start_of_a_changed_block_counts_as_an_estimate() -> None:
    """A quarter of a block of 2,000 tokens is as before: 1,000 + 500 tokens, 1,408 in steps."""
    texts = {"old": "a" * 100 + "b" * 300, "new": "a" * 100 + "c" * 300, "system": "s"}
    cache = OpenAiCache(texts.__getitem__)
    cache.ask(call(block("system", 1000), block("old", 2000)))

    outcome = cache.ask(call(block("system", 1000), block("new", 2000), at=1))

    assert (outcome.read, outcome.is_estimate) == (1408, True)
    assert not cache.ask(call(block("system", 1000), block("new", 2000), at=2)).is_estimate


# From GPT-5.6 on.


def test_a_new_model_writes_the_end_of_a_prompt_and_reads_it_there() -> None:
    """The provider's own breakpoint: 1,500 are written; then they are read exactly, and 180 more written."""
    start = block("system", 1300), block("question", 200)
    first = call(*start, model=NEW)

    outcomes = simulate(
        OpenAiCache(), [first, call(*start, block("a", 80), block("q", 100), model=NEW, at=9)]
    )

    assert [(o.read, o.write_5m, o.fresh) for o in outcomes] == [(0, 1500, 0), (1500, 180, 0)]
    assert outcomes[1].reasons == ()


def test_a_new_model_does_not_fall_back_to_what_is_shared() -> None:
    """4,000 tokens are the same, but no breakpoint stands behind them."""
    system = block("system", 4000)

    outcome = ask(call(system, block("a", 10), model=NEW), call(system, block("b", 10), model=NEW, at=1))

    assert (outcome.read, outcome.write_5m) == (0, 4010)
    assert whys(outcome) == [("changed", "b"), ("no marker", "system")]


def test_a_breakpoint_of_the_client_is_found_again() -> None:
    system = block("system", 4000, marked=True)

    outcome = ask(call(system, block("a", 10), model=NEW), call(system, block("b", 10), model=NEW, at=1))

    assert (outcome.read, outcome.write_5m, outcome.fresh) == (4000, 10, 0)


def test_without_the_own_breakpoint_only_marks_are_written() -> None:
    system = block("system", 4000, marked=True)

    def explicit(*blocks: CacheBlock, at: float = 0.0) -> CacheCall:
        return call(*blocks, model=NEW, at=at, adds_breakpoint=False)

    outcome = ask(explicit(system, block("a", 10)), explicit(system, block("b", 10), at=1))
    nothing = ask(explicit(block("system", 4000)), explicit(block("system", 4000), at=1))

    assert (outcome.read, outcome.write_5m, outcome.fresh) == (4000, 0, 10)
    assert (nothing.read, nothing.write_5m, whys(nothing)) == (0, 0, [("no marker", "")])


def test_without_the_own_breakpoint_those_of_other_calls_are_not_used() -> None:
    """The first call left one at its end, and the second may only use its own, which is shorter."""
    blocks = block("system", 4000, marked=True), block("a", 10)

    outcome = ask(call(*blocks, model=NEW), call(*blocks, model=NEW, at=1, adds_breakpoint=False))

    assert (outcome.read, outcome.write_5m, outcome.fresh, outcome.reasons) == (4000, 0, 10, ())


def test_what_is_read_lives_on_with_the_breakpoints_within_it() -> None:
    system = block("system", 4000, marked=True)
    first, second = [call(system, block("a", 10), model=NEW, at=at) for at in (0, 20 * MINUTE)]

    outcome = ask(first, second, call(system, block("b", 10), model=NEW, at=40 * MINUTE))

    assert (outcome.read, outcome.write_5m) == (4000, 10)


@pytest.mark.parametrize(("adds_breakpoint", "read"), [(True, 2000), (False, 1000)])
def test_four_breakpoints_are_written_the_latest_ones(adds_breakpoint: bool, read: int) -> None:
    """Five marks of 1,000 each: with the own one the latest three of them, without it four."""
    marks = [block(str(number), 1000, marked=True) for number in range(1, 6)]
    first = call(*marks, block("tail", 10), model=NEW, adds_breakpoint=adds_breakpoint)

    for number in range(1, 6):
        again = call(*marks[:number], block("else", 5), model=NEW, at=1, adds_breakpoint=adds_breakpoint)
        assert ask(first, again).read == (number * 1000 if number * 1000 > read else 0)


@pytest.mark.parametrize(("tokens", "written"), [(1023, 0), (1024, 1024)])
def test_a_new_model_writes_no_less_than_its_minimum(tokens: int, written: int) -> None:
    outcome = ask(call(block("system", tokens), model=NEW))

    assert outcome.write_5m == written
    assert ("too short", "") in whys(outcome) or written


def test_a_new_model_keeps_a_prompt_for_half_an_hour() -> None:
    prompt = block("system", 2000)
    first = call(prompt, model=NEW)

    late = ask(first, call(prompt, model=NEW, at=30 * MINUTE))

    assert ask(first, call(prompt, model=NEW, at=30 * MINUTE - 1)).read == 2000
    assert (late.read, late.write_5m, whys(late)) == (0, 2000, [("ttl", "system")])


@pytest.mark.parametrize(("turns", "read"), [(79, 2000), (80, 0)])
def test_the_latest_eighty_breakpoints_are_looked_at(turns: int, read: int) -> None:
    """The one at the end of the prompt is one of them; the client's own are the others."""
    system = block("system", 2000, marked=True)
    marks = [block(f"turn {number}", 10, marked=True) for number in range(turns - 1)]

    outcome = ask(call(system, model=NEW), call(system, *marks, block("end", 10), model=NEW, at=1))

    assert outcome.read == read
    assert whys(outcome)[:1] == ([] if read else [("lookback", "system")])
