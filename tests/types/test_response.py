from __future__ import annotations

import pytest

from cortex_replay import InvalidRequest, TokenUsage, ToolCall, ToolCallDelta


def test_pieces_of_tool_calls_join_to_whole_ones() -> None:
    """By index, in the order of the indexes, whatever the order of arrival."""
    pieces = [
        ToolCallDelta(1, "b", "g"),
        ToolCallDelta(0, "a", "f"),
        ToolCallDelta(0, arguments='{"x":'),
        ToolCallDelta(1, arguments="oops"),
        ToolCallDelta(0, arguments=" 1}"),
    ]

    expected = (
        ToolCall(id="a", name="f", arguments={"x": 1}),
        ToolCall(id="b", name="g", arguments="oops"),
    )
    assert expected == ToolCallDelta.join(pieces)


def test_many_pieces_join_in_linear_time() -> None:
    """A long argument comes in thousands of pieces."""
    pieces = [
        ToolCallDelta(0, "", "f", '"'),
        *[ToolCallDelta(0, arguments="x")] * 100_000,
        ToolCallDelta(0, arguments='"'),
    ]

    assert ToolCallDelta.join(pieces) == (ToolCall(id="", name="f", arguments="x" * 100_000),)


@pytest.mark.parametrize("arguments", [{"b": [1, None], "a": "é"}, {}, "not JSON", None, "123", '"x"', ""])
def test_a_whole_call_as_one_piece_joins_to_itself(arguments: object) -> None:
    """What one chunk says of a call is all there is to know."""
    call = ToolCall(id="a", name="f", arguments=arguments)  # type: ignore[arg-type]

    assert (call,) == ToolCallDelta.join([ToolCallDelta.whole(0, call)])


@pytest.mark.parametrize("bad", [-1, 2**32, 1.0, True, None, "1"])
def test_token_counts_are_32_bit_counts(bad: object) -> None:
    """As in the reference, which could not read the fixture otherwise."""
    with pytest.raises(InvalidRequest, match="prompt_tokens"):
        TokenUsage(bad, 0)  # type: ignore[arg-type]


def test_unknown_counts_are_left_out() -> None:
    """Absent is not zero."""
    assert TokenUsage(1, 2, 0).to_dict() == {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0}
