from __future__ import annotations

from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmRequest, ResponseParse, StreamChunk, TokenUsage, blake3_hex
from cortex_replay.testing import EchoAdapter
from tests.builder import ask


def test_it_answers_with_the_last_user_message() -> None:
    """And with everything else that an answer has."""
    response = EchoAdapter().sync.complete(ask("Say  it\nagain.", system="Be brief."))

    assert response.text == "Say  it\nagain."
    assert response.model == "test-model"
    assert response.finish_reason == "stop"
    assert response.usage == TokenUsage(5, 3)
    assert response.raw_hash == blake3_hex(b"Say  it\nagain.")
    assert (response.tool_calls, response.reasoning, response.parsed_json) == ((), None, None)


def test_later_messages_of_others_are_not_echoed() -> None:
    """Neither the assistant's nor a tool's, though they count as tokens."""
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"a": "b c"}}]},
        {"role": "tool", "content": "three"},
    ]
    response = EchoAdapter().sync.complete(LlmRequest("m", messages=turns))

    assert response.text == "two"
    assert response.usage == TokenUsage(6, 1)


def test_a_prefix_stands_before_every_answer() -> None:
    """With nothing between the two."""
    assert EchoAdapter("> ").sync.complete(ask("hi")).text == "> hi"
    assert EchoAdapter(prefix="> ").sync.complete(ask("")).text == "> "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two  three", ["one", " two", "  three"]),
        (" \n one \n", [" \n one", " \n"]),
        ("日本語", ["日本語"]),
        ("  ", ["  "]),
        ("", []),
    ],
)
def test_a_stream_gives_word_by_word(text: str, words: list[str]) -> None:
    """Spaces come with the word after them; the last chunk has the whole answer and no text."""
    echo = EchoAdapter()
    chunks = list(echo.sync.stream(ask(text)))

    assert chunks[:-1] == [StreamChunk(word) for word in words]
    assert chunks[-1] == StreamChunk("", "stop", response=echo.sync.complete(ask(text)))


def test_without_a_user_message_there_is_nothing_to_echo() -> None:
    """Which is an error, not silence."""
    with pytest.raises(InvalidRequest, match="no user message to echo") as caught:
        EchoAdapter().sync.complete(LlmRequest("m", messages=[{"role": "assistant", "content": "hi"}]))

    assert caught.value.field == "messages"


def test_a_schema_holds_for_an_echo_too() -> None:
    """As it does for a model."""
    echo = EchoAdapter().sync

    assert echo.complete(ask('{"a": 1}', json_schema={"type": "object"})).parsed_json == {"a": 1}
    with pytest.raises(ResponseParse, match="is not JSON"):
        echo.complete(ask("hi", json_schema={"type": "object"}))


def test_a_prefix_is_text() -> None:
    """Which is found out when the adapter is made."""
    with pytest.raises(InvalidRequest, match="prefix: expected text"):
        EchoAdapter(5)  # type: ignore[arg-type]
