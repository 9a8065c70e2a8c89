"""Cache markers of clients: lifted as the plan of a request, and sent again as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cortex_replay import LlmRequest, PromptCachePlan
from cortex_replay.prompt.markers import marks_of, system_blocks
from cortex_replay.types import CacheMark
from cortex_replay.wire import WIRES

SHORT: dict[str, Any] = {"type": "ephemeral"}
LONG: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
ANTHROPIC = WIRES["anthropic-messages"]


def text(words: str, marker: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({} if marker is None else {"cache_control": marker})


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "claude-m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **fields}


def plan_in(wire: str, **fields: Any) -> PromptCachePlan:
    plan = WIRES[wire].lift(body(**fields)).cache
    assert plan is not None
    return plan


def marks(plan: PromptCachePlan | None) -> list[tuple[Any, ...]]:
    return [(m.place, m.index, m.part, m.ttl) for m in (plan or PromptCachePlan()).marks]


def test_every_marker_of_a_body_is_in_the_plan_where_it_stood() -> None:
    plan = plan_in(
        "anthropic-messages",
        cache_control=LONG,
        tools=[{"name": "a", "input_schema": {}, "cache_control": LONG}, {"name": "b", "input_schema": {}}],
        system=[text("Rules.", LONG), text("Facts.", SHORT)],
        messages=[
            {"role": "user", "content": [text("One.", SHORT), text("Two.")]},
            {
                "role": "assistant",
                "content": [
                    text("Let me see."),
                    {"type": "tool_use", "id": "t", "name": "a", "input": {}, "cache_control": SHORT},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "Sun.", "cache_control": SHORT},
                    text("And?", LONG),
                ],
            },
        ],
    )

    assert marks(plan) == [
        ("tool", 0, None, "1h"),
        ("system", 0, None, "1h"),
        ("system", 1, None, "5m"),
        ("message", 0, 0, "5m"),
        ("message", 1, None, "5m"),
        ("message", 2, None, "5m"),
        ("message", 3, None, "1h"),
        ("prompt", 0, None, "1h"),
    ]


def test_a_marker_within_a_tool_s_result_is_on_a_block_of_it() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("a", SHORT), text("b")]}

    assert marks(plan_in("anthropic-messages", messages=[{"role": "user", "content": [result]}])) == [
        ("message", 0, 0, "5m")
    ]


@pytest.mark.parametrize("blank", ["", "A\n\nB", "\n\n", "A\n\n", "\n\nB", " "], ids=repr)
def test_blocks_of_the_system_text_stay_apart_whatever_they_hold(blank: str) -> None:
    given = [text("first"), text(blank, SHORT), text("last")]

    request = ANTHROPIC.lift(body(system=given))

    assert [said for said, _ in system_blocks(request)] == [b["text"] for b in given if b["text"]]
    assert marks(request.cache) == ([("system", 1, None, "5m")] if blank else [])


def test_a_system_message_at_the_start_is_a_block_of_the_system_text() -> None:
    request = ANTHROPIC.lift(
        body(
            system=[text("a", SHORT)],
            messages=[
                {"role": "system", "content": [text("b"), text("c", LONG)]},
                {"role": "user", "content": [text("q", SHORT)]},
            ],
        )
    )

    assert [said for said, _ in system_blocks(request)] == ["a", "b", "c"]
    assert marks(request.cache) == [
        ("system", 0, None, "5m"),
        ("system", 2, None, "1h"),
        ("message", 0, None, "5m"),
    ]


def test_an_empty_text_takes_no_marker_and_no_place() -> None:
    call = {"type": "tool_use", "id": "t", "name": "a", "input": {}, "cache_control": SHORT}
    messages = [{"role": "assistant", "content": [text("", SHORT), call]}]

    assert marks(plan_in("anthropic-messages", messages=messages)) == [("message", 0, None, "5m")]


@pytest.mark.parametrize("odd", [None, 5, "x", []])
def test_what_is_no_marker_is_none(odd: object) -> None:
    assert ANTHROPIC.lift(body(system=[{**text("a"), "cache_control": odd}], cache_control=odd)).cache is None


def test_a_body_that_says_nothing_has_no_plan() -> None:
    assert ANTHROPIC.lift(body(system="Be brief.")).cache is None
    assert ANTHROPIC.lift(body(system=[text("Be brief.")])).cache is None


def test_a_marker_on_the_whole_prompt_stands_where_the_provider_puts_it() -> None:
    request = ANTHROPIC.lift(
        body(
            cache_control=SHORT,
            messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}],
        )
    )

    assert [(mark.index, mark.cache) for mark in marks_of(request)] == [(0, "5m")]


markers = st.sampled_from([None, None, SHORT, LONG])
words = st.sampled_from(["a", "b c", "x\n\ny", "z\n\n", "é"])
blocks = st.builds(text, words, markers)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(draw(st.integers(1, 4))):
        content: list[Any] = []
        if messages:
            content = [
                {"type": "tool_result", "tool_use_id": f"t{n}", "content": draw(st.lists(blocks, min_size=1))}
                | ({} if (marker := draw(markers)) is None else {"cache_control": marker})
            ]
        messages.append({"role": "user", "content": content + draw(st.lists(blocks, min_size=1, max_size=3))})
        call = {"type": "tool_use", "id": f"t{n + 1}", "name": "f", "input": {}}
        call |= {} if (marker := draw(markers)) is None else {"cache_control": marker}
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        said = draw(st.lists(blocks, max_size=2))
        messages.append({"role": "assistant", "content": [thought, *said, call]})
    return messages


bodies = st.builds(
    lambda system, tools, messages, whole: body(
        system=system,
        tools=[
            {"name": f"f{i}", "input_schema": {}} | ({} if marker is None else {"cache_control": marker})
            for i, marker in enumerate(tools)
        ],
        messages=messages,
        **({} if whole is None else {"cache_control": whole}),
    ),
    st.lists(blocks, max_size=4),
    st.lists(markers, max_size=3),
    conversations(),
    markers,
)


def count_markers(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(count_markers, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + ("cachePoint" in value) + sum(map(count_markers, value.values()))


@settings(max_examples=60)
@given(bodies)
def test_markers_are_sent_again_as_they_were(sent: dict[str, Any]) -> None:
    request = ANTHROPIC.lift(sent)
    lowered = ANTHROPIC.encode_request(request)
    again = ANTHROPIC.lift(lowered)

    assert again == request
    assert again.cache == request.cache
    assert count_markers(lowered) == count_markers(sent)


@settings(max_examples=60)
@given(bodies)
def test_markers_make_no_other_key(sent: dict[str, Any]) -> None:
    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {name: bare(item) for name, item in value.items() if name != "cache_control"}

    assert ANTHROPIC.lift(sent).prompt_hash() == ANTHROPIC.lift(bare(sent)).prompt_hash()


def test_marks_take_their_room_before_what_the_rest_of_a_plan_asks_for() -> None:
    plan = PromptCachePlan(
        cache_tools=True,
        cache_system=True,
        marks=tuple(CacheMark("message", i) for i in range(3)),
    )
    talk: Any = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}"} for i in range(3)]
    lowered = ANTHROPIC.encode_request(LlmRequest("claude-m", "S", talk, tools=[{"name": "a"}], cache=plan))

    assert count_markers(lowered) == 4
    assert "cache_control" not in lowered["tools"][0]
