"""What a prompt consists of, what would be cached of it, and what a recording notes of its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex_replay import LlmMessage, LlmRequest, PromptCachePlan, TokenUsage
from cortex_replay.prompt import PromptBlock, RenderedContext, to_request
from cortex_replay.prompt.breakpoint_notes import block_ends, note_cache, restore_breakpoints
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.explain import CacheHit, compare, explain
from cortex_replay.prompt.markers import breakpoints_of, marks_of, system_blocks

TOOLS = [{"name": "look", "description": "d" * 400}]
BLOCKS = [PromptBlock.cached_long("rules", "r" * 4000), PromptBlock.cached_short("facts", "f" * 2000)]


def asked(question: str = "Where is it?", blocks: list[PromptBlock] = BLOCKS, **fields: Any) -> LlmRequest:
    return to_request(
        blocks, wire="anthropic-messages", model="m", messages=question, tools=TOOLS, max_tokens=9, **fields
    )


def cached(found: tuple[CacheHit, ...]) -> dict[str, int]:
    return {entry.provider: entry.tokens for entry in found}


def test_a_prompt_in_its_parts() -> None:
    explained = explain(asked())

    assert [(part.name, part.tokens, part.breakpoint) for part in explained.parts] == [
        ("tool 'look'", 108, "none"),
        ("block 'rules'", 1000, "1h"),
        ("block 'facts'", 500, "5m"),
        ("turn 1 (user)", 3, "none"),
    ]
    assert [part.up_to_here for part in explained.parts] == [108, 1108, 1608, 1611]
    assert [part.bytes for part in explained.parts] == [432, 4000, 2000, 12]
    assert not explained.is_counted
    assert cached(explained.cached) == {"anthropic": 1608, "openai": 1536, "ollama": 1611}
    assert explained.cached[0].why == "up to the breakpoint behind block 'facts' (5m)"


@pytest.mark.parametrize("count", [1, 3, 1000, 3222, 1_000_003])
def test_the_provider_s_count_is_shared_out_and_adds_up(count: int) -> None:
    explained = explain(asked(), TokenUsage(count, 5, 7, 8))

    assert sum(part.tokens for part in explained.parts) == explained.tokens == count
    assert all(part.tokens >= 0 for part in explained.parts)
    assert explained.is_counted
    assert explained.usage == TokenUsage(count, 5, 7, 8)


def test_a_count_of_nothing_is_no_count() -> None:
    """Some servers give zeros."""
    assert explain(asked(), TokenUsage(0, 0)).tokens == 1611


def test_small_prompts_are_not_cached() -> None:
    explained = explain(asked(blocks=[PromptBlock.cached_long("a", "short")]))

    assert cached(explained.cached) == {"anthropic": 0, "openai": 0, "ollama": 113}
    assert "1,024" in explained.cached[0].why


def test_without_breakpoints_anthropic_caches_nothing() -> None:
    plain = replace(asked(), cache=None)

    assert explain(plain).cached[0] == CacheHit("anthropic", 0, "no breakpoint was recorded with this prompt")
    assert explain(LlmRequest("m")).cached[0].tokens == 0


def test_a_prompt_that_goes_on_keeps_its_cache() -> None:
    first = asked()
    messages = [*first.messages, LlmMessage("assistant", "There."), LlmMessage("user", "Thanks.")]
    compared = compare(first, replace(first, messages=tuple(messages)))

    assert compared.first_change is None
    assert compared.diff == ""
    assert (compared.shared_parts, compared.shared_tokens) == (4, 1611)
    assert cached(compared.cached) == {"anthropic": 1608, "openai": 1536, "ollama": 1611}
    assert [change.change for change in compared.parts] == ["same"] * 4 + ["added"] * 2


def test_a_time_in_the_rules_breaks_it_where_it_stands() -> None:
    def at(time: str) -> LlmRequest:
        rules = PromptBlock.cached_long("rules", "r" * 4096 + f"\nIt is {time}.\n" + "s" * 4000)
        return asked(blocks=[rules, BLOCKS[1]])

    compared = compare(at("09:15:02"), at("09:15:07"))

    assert compared.first_change == "block 'rules'"
    assert compared.looks_like == "a time"
    assert "-It is 09:15:02." in compared.diff
    assert compared.shared_parts == 1
    assert cached(compared.cached) == {"anthropic": 0, "openai": 1024, "ollama": compared.shared_tokens}
    assert 1132 < compared.shared_tokens < 1140
    assert compared.cached[0].why == "every breakpoint of the first stands behind the first difference"


def test_other_models_share_nothing_and_other_settings_do() -> None:
    first = asked(temperature=0.0)
    hotter, other = replace(first, temperature=0.5), replace(first, model="n")

    assert compare(first, hotter).settings == (("temperature", 0.0, 0.5),)
    assert compare(first, hotter).shared_parts == 4
    compared = compare(first, other)
    assert compared.settings == (("model", "m", "n"),)
    assert cached(compared.cached) == {"anthropic": 0, "openai": 0, "ollama": 0}
    assert compared.shared_tokens == 0


def test_what_came_and_went_is_told_apart() -> None:
    first = asked()
    second = replace(first, tools=(), messages=(*first.messages, LlmMessage("user", "more")))
    changes = {change.name: change.change for change in compare(first, second).parts}

    assert changes == {
        "tool 'look'": "removed",
        "block 'rules'": "same",
        "block 'facts'": "same",
        "turn 1 (user)": "same",
        "turn 2 (user)": "added",
    }


def test_a_prompt_recorded_with_a_plan_compares_with_one_without() -> None:
    """The system text counts, not how it was cut."""
    compared = compare(asked(), replace(asked(), cache=None))

    assert compared.first_change is None
    assert {change.change for change in compared.parts} == {"same"}
    assert compared.cached[0].why == "the second has no breakpoint at or behind what the first cached"


def test_a_recording_s_note_gives_back_the_breakpoints() -> None:
    context = RenderedContext("stable", "known", [{"role": "user", "content": "q"}])
    plan = PromptCachePlan(cache_tools=True, ttl="1h")
    request = context.to_request(wire="anthropic-messages", model="m", tools=TOOLS, cache=plan)
    noted: Any = note_cache(request, block_ends(request))
    stored = replace(request, cache=None, messages=tuple(replace(m, id=None) for m in request.messages))

    assert noted == {
        "markers": [
            {"at": "tool", "number": 1, "ttl": "1h"},
            {"at": "system", "number": 1, "ttl": "1h"},
            {"at": "system", "number": 2, "ttl": "1h"},
            {"at": "message", "number": 1, "ttl": "1h"},
        ],
        "blocks": [{"end": 6, "label": "system_stable"}, {"end": 13, "label": "system_knowledge"}],
    }
    restored = restore_breakpoints(stored, {"cache": noted})
    where = [(kept.place, kept.index, kept.cache) for kept in marks_of(restored)]
    assert where == [(kept.place, kept.index, kept.cache) for kept in breakpoints_of(request).kept]
    assert [text for text, _ in system_blocks(restored)] == [text for text, _ in system_blocks(request)]
    assert restored == stored, "a plan is no part of a request's value"


OLD_NOTES: list[Any] = [
    {"behind": "tools", "ttl": "1h"},
    {"behind": "system", "end": 6, "ttl": "1h"},
    {"behind": "message", "number": 1, "ttl": "5m"},
]


def test_the_notes_of_earlier_versions_are_read() -> None:
    stored = LlmRequest("m", "stable\n\nknown", "q", tools=[{"name": "a"}, {"name": "b"}])

    restored = restore_breakpoints(stored, {"breakpoints": OLD_NOTES})

    assert [(m.place, m.index, m.cache) for m in marks_of(restored)] == [
        (Place.TOOLS, 1, "1h"),
        (Place.SYSTEM, 0, "1h"),
        (Place.MESSAGES, 0, "5m"),
    ]
    assert [text for text, _ in system_blocks(restored)] == ["stable", "known"]


MARKED: dict[str, Any] = {"at": "message", "number": 1, "ttl": "1h"}


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"cache": 5},
        {"cache": []},
        {"cache": {"markers": 5, "blocks": 5, "key": 5, "retention": 5}},
        {"cache": {"markers": [5, {}, MARKED | {"ttl": "2h"}, MARKED | {"at": "sofa"}]}},
        {"cache": {"markers": [MARKED | {"number": n} for n in (0, True, "1", None, 2**40)]}},
        {"cache": {"markers": [MARKED | {"part": n} for n in (0, True, "1", 2**40)]}},
        {"cache": {"blocks": [{"end": 2}, {"end": 1}]}},
        {"cache": {"blocks": [{"end": True}]}},
        {"cache": {"blocks": [{"end": 1}, 5]}},
        *[
            {"breakpoints": noted}
            for noted in (
                5,
                "x",
                [5],
                [{"behind": "system", "end": 99, "ttl": "1h"}],
                [{"behind": "system", "end": 1, "ttl": "2h"}],
                [{"behind": "message", "number": n, "ttl": "1h"} for n in (0, 2)],
                [{"behind": "sofa", "ttl": "1h"}],
            )
        ],
    ],
    ids=str,
)
def test_a_note_that_makes_no_sense_is_not_followed(meta: Any) -> None:
    request = LlmRequest("m", "system", "q")

    assert restore_breakpoints(request, meta).cache is None


def test_a_place_that_a_request_does_not_have_is_no_breakpoint() -> None:
    markers: Any = [MARKED | {"at": at, "number": 9} for at in ("tool", "system", "message")]
    restored = restore_breakpoints(LlmRequest("m", "system", "q"), {"cache": {"markers": markers}})

    assert marks_of(restored) == ()
    assert {part.breakpoint for part in explain(restored).parts} == {"none"}


def policy(*more: PromptBlock, **fields: Any) -> LlmRequest:
    blocks = [PromptBlock.cached_long("policy", "p " * 4000), *more]
    return to_request(blocks, wire="anthropic-messages", model="m", max_tokens=9, **fields)


TAIL, FACTS = PromptBlock.plain("t", "Monday"), PromptBlock.cached_short("f", "f " * 50)


@pytest.mark.parametrize(
    ("first", "second"),
    [([TAIL], [FACTS, TAIL]), ([TAIL], []), ([], [TAIL]), ([FACTS, TAIL], [FACTS])],
    ids=str,
)
def test_system_texts_in_other_numbers_of_blocks_still_share_the_first(
    first: list[PromptBlock], second: list[PromptBlock]
) -> None:
    compared = compare(policy(*first), policy(*second))

    assert cached(compared.cached)["anthropic"] >= 2000
    assert compared.shared_parts >= 1


def test_an_earlier_breakpoint_of_both_counts_when_the_last_is_gone() -> None:
    user = LlmMessage("user", "u" * 4000, id="u1")
    plan = PromptCachePlan(breakpoint_message_ids=("u1",), ttl="1h")

    assert (
        cached(compare(policy(messages=[user], cache=plan), policy(messages=[user])).cached)["anthropic"]
        == 2000
    )


@pytest.mark.parametrize("count", [500, 4000])
def test_what_is_shared_within_a_part_is_counted_as_the_provider_counts(count: int) -> None:
    first, second = LlmRequest("m", "a" * 4000), LlmRequest("m", "a" * 2000 + "b" * 2000)

    assert compare(first, second, (TokenUsage(count, 1),) * 2).shared_tokens == count // 2


def test_the_same_words_in_another_role_are_not_shared() -> None:
    def said(role: str) -> LlmRequest:
        return LlmRequest("m", "s", [LlmMessage(role, "x" * 8000)])

    compared = compare(said("user"), said("assistant"))

    assert compared.shared_tokens == 1
    assert '"role":"user"' in compared.diff


def test_two_tools_of_one_name_are_two_parts() -> None:
    tools = [{"name": "t", "description": "d" * 4000}, {"name": "t"}]
    first, swapped = LlmRequest("m", "s", tools=tools), LlmRequest("m", "s", tools=tools[::-1])

    assert [c.tokens_before for c in compare(first, first).parts] == [1008, 3, 1]
    assert [c.change for c in compare(first, swapped).parts] == ["changed", "changed", "same"]


def test_a_picture_in_a_recording_counts_as_one() -> None:
    """Of its data only the hash is stored."""
    stored = {"type": "image", "media_type": "image/png", "blake3": "0" * 64}

    assert explain(LlmRequest("m", "", [LlmMessage("user", "", parts=[stored])])).tokens > 1600


def test_a_count_of_an_empty_prompt_is_kept() -> None:
    assert explain(LlmRequest("m", "", [LlmMessage("user", "")]), TokenUsage(7, 1)).tokens == 7
