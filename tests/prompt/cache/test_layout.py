"""A request as the blocks that a cache sees."""

from __future__ import annotations

import pytest

from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock
from cortex_replay.prompt.cache.layout import Layouts, share
from cortex_replay.prompt.cache.requests import estimate_call
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, PromptCachePlan

MODEL = "claude-sonnet-4-5"
CALL = {"id": "c1", "name": "read", "arguments": {"path": "a.py"}}


def request(*messages: object, **fields: object) -> LlmRequest:
    return LlmRequest(MODEL, messages=messages, **fields)  # type: ignore[arg-type]


def lay_out(asked: LlmRequest, tokens: int | None = None) -> tuple[CacheBlock, ...]:
    return estimate_call(asked, "anthropic", Layouts(), tokens=tokens).blocks


def names(asked: LlmRequest) -> list[str]:
    return [block.name for block in lay_out(asked)]


def markers(asked: LlmRequest) -> dict[int, str]:
    return {i: block.marker.value for i, block in enumerate(lay_out(asked)) if block.marker.is_cached}


def test_tools_come_first_then_the_system_text_then_the_messages() -> None:
    asked = request(
        {"role": "user", "content": "Go on."}, system="Be kind.", tools=[{"name": "read"}, {"type": "search"}]
    )

    blocks = lay_out(asked)
    assert [block.name for block in blocks] == ["tool 'read'", "tool 2", "system text", "turn 1 (user)"]
    assert [block.place for block in blocks] == [Place.TOOLS, Place.TOOLS, Place.SYSTEM, Place.MESSAGES]


def test_blocks_of_the_system_text_have_their_labels() -> None:
    plan = PromptCachePlan(system_cuts=((6, "none"), (11, "5m")), labels=("policy", ""))

    asked = request(system="Policy\n\nNow", cache=plan)
    assert names(asked) == ["block 'policy'", "system block 2"]
    assert markers(asked) == {1: "5m"}


def test_names_are_as_long_as_one_reads() -> None:
    asked = request(system="x", tools=[{"name": "t" * 999}], cache=PromptCachePlan(labels=("l" * 999,)))

    assert [len(name) for name in names(asked)] == [len("tool ''") + 80, len("block ''") + 80]


def test_every_block_of_a_message_is_one_and_a_tool_s_result_is_one_whatever_it_holds() -> None:
    image = {"type": "image", "media_type": "image/png", "blake3": "0" * 64}
    asked = request(
        {"role": "user", "content": "Look", "parts": [{"type": "text", "text": "Look"}, image]},
        {
            "role": "assistant",
            "content": "I read.",
            "parts": [{"type": "thinking", "thinking": "Hm."}],
            "tool_calls": [CALL, {**CALL, "id": "c2"}],
        },
        {"role": "tool", "content": "one", "tool_call_id": "c1"},
        {
            "role": "tool",
            "content": "two",
            "tool_call_id": "c2",
            "parts": [{"type": "text", "text": "two"}, image],
        },
    )

    assert names(asked) == [
        *["turn 1 (user)"] * 2,
        *["turn 2 (assistant)"] * 4,
        "turn 3 (tool)",
        "turn 4 (tool)",
    ]
    kinds = ["user", "user", "thinking", "", "tool_use", "tool_use", "tool_result", "tool_result"]
    assert [block.kind for block in lay_out(asked)] == kinds
    sizes = [block.tokens for block in lay_out(asked)]
    assert sizes[1] == 1600  # a picture has a size of its own, wherever it stands
    assert sizes[7] > 1600


def test_a_text_is_the_same_block_alone_and_beside_others() -> None:
    alone = request({"role": "user", "content": "Look"})
    beside = request(
        {
            "role": "user",
            "content": "LookHere",
            "parts": [{"type": "text", "text": "Look"}, {"type": "text", "text": "Here"}],
        }
    )

    assert lay_out(alone)[0].digest == lay_out(beside)[0].digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}),
        (
            {"role": "tool", "content": "x", "tool_call_id": "c1"},
            {"role": "tool", "content": "x", "tool_call_id": "c2"},
        ),
        (
            {"role": "tool", "content": "x", "tool_call_id": "c1"},
            {"role": "tool", "content": "x", "tool_call_id": "c1", "is_error": True},
        ),
    ],
)
def test_what_the_provider_reads_beside_a_text_tells_blocks_apart(one: object, other: object) -> None:
    assert lay_out(request(one))[0].digest != lay_out(request(other))[0].digest


def test_the_order_of_a_tool_s_fields_counts() -> None:
    one, other = (
        request(tools=[tool]) for tool in ({"name": "a", "strict": True}, {"strict": True, "name": "a"})
    )

    assert one.prompt_hash() == other.prompt_hash()
    assert lay_out(one)[0].digest != lay_out(other)[0].digest


def test_markers_stand_where_the_client_put_them() -> None:
    marks = (
        CacheMark("tool", 0, "1h"),
        CacheMark("system", 0),
        CacheMark("message", 0, "5m", 0),
        CacheMark("message", 1),
    )
    asked = request(
        {
            "role": "user",
            "content": "ab",
            "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"role": "user", "content": "c"},
        system="s",
        tools=[{"name": "a"}, {"name": "b"}],
        cache=PromptCachePlan(marks=marks),
    )

    assert markers(asked) == {0: "1h", 2: "5m", 3: "5m", 5: "5m"}


def test_the_automatic_marker_stands_on_the_last_block_that_can_carry_one() -> None:
    thinking = {"role": "assistant", "content": "", "parts": [{"type": "thinking", "thinking": "Hm."}]}
    plan = PromptCachePlan(marks=(CacheMark("prompt", ttl="1h"),))

    assert markers(request({"role": "user", "content": "a"}, thinking, cache=plan)) == {0: "1h"}


def test_a_marker_on_a_block_that_is_not_there_is_not_followed() -> None:
    marks = (
        CacheMark("tool", 0),
        CacheMark("system", 3),
        CacheMark("message", 9),
        CacheMark("message", 0, part=7),
    )

    asked = request({"role": "user", "content": "a"}, cache=PromptCachePlan(marks=marks))
    assert markers(asked) == {0: "5m"}  # a part that is too far is the last
    assert markers(LlmRequest(MODEL, cache=PromptCachePlan(marks=(CacheMark("prompt"),)))) == {}


def test_a_request_carries_four_markers() -> None:
    asked = to_request(
        [PromptBlock.cached_short(f"b{i}", f"text {i}") for i in range(2)],
        wire="anthropic-messages",
        model=MODEL,
        messages=[LlmMessage("user", str(i), id=str(i)) for i in range(4)],
        cache=PromptCachePlan(breakpoint_message_ids=("0", "1", "2", "3")),
    )

    assert markers(asked) == {2: "5m", 3: "5m", 4: "5m", 5: "5m"}


def test_of_too_many_markers_the_last_four_are_kept() -> None:
    marks = tuple(CacheMark("message", i) for i in range(6))
    asked = request(
        *({"role": "user", "content": str(i)} for i in range(6)), cache=PromptCachePlan(marks=marks)
    )

    assert list(markers(asked)) == [2, 3, 4, 5]


def test_counts_are_shared_in_proportion_and_add_up() -> None:
    assert share([1, 1, 1], 10) == [3, 4, 3]
    assert share([0, 0], 5) == [0, 5]
    assert share([], 5) == []
    assert sum(block.tokens for block in lay_out(request({"role": "user", "content": "abc"}), 77)) == 77


def test_layouts_of_a_run_agree_with_single_ones_and_know_the_texts() -> None:
    tools = [{"name": "a"}]
    turns = [LlmMessage("user", "one"), LlmMessage("assistant", "two"), LlmMessage("user", "one")]
    run = Layouts()
    for end in range(4):
        asked = LlmRequest(MODEL, "s", turns[:end], tools=tools)
        layout = run.lay_out(asked)
        assert layout.blocks(layout.estimates) == lay_out(asked)

    assert [run.text_of(row.digest) for row in layout.rows] == ['{"name":"a"}', "s", "one", "two", "one"]
    assert run.text_of("unknown") == ""
    assert layout.markers == {}
    assert layout.blocks(layout.estimates)[0].marker is CachePolicy.NONE
