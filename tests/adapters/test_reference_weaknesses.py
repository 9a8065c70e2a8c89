"""What the reference gets wrong when it asks a model, point by point; each test fails on its behaviour.

The numbers are those of the list that came with the vectors; ``vectors/adapter_probe.json`` shows what
the reference sent and made of the answers.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    InvalidRequest,
    LlmError,
    LlmRequest,
    OllamaAdapter,
    OpenAICompatAdapter,
    ResponseParse,
    Timeout,
    TokenUsage,
    ToolCall,
    Transport,
    Upstream,
)
from tests.adapters.calling import complete, read_stream, run
from tests.adapters.dialects import DIALECTS, Dialect, ask
from tests.adapters.fake_provider import serving, silence, stream, whole

PROBE = json.loads((Path(__file__).parents[1] / "vectors/adapter_probe.json").read_text())
CLAUDE, CHAT, RESPONSES, OLLAMA = DIALECTS
dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
both = pytest.mark.parametrize("call", [complete, read_stream])

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LOADED = ask(
    json_schema=SCHEMA,
    top_p=0.25,
    tools=[{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    messages=[
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "thinking aloud",
            "tool_calls": [{"id": "c1", "name": "f", "arguments": {"x": 1}}],
        },
        {"role": "tool", "content": "t", "tool_call_id": "c1"},
    ],
)


def sent(dialect: Dialect, request: LlmRequest) -> Any:
    _, provider = run(dialect, complete, whole(dialect.answer('{"a": 1}')), request=request)
    return provider.received[0].json


@dialects
def test_10_everything_that_the_key_covers_is_sent(dialect: Dialect) -> None:
    """What was sent lifts to the request's own key."""
    lifted = dialect.wire.lift(sent(dialect, LOADED))

    assert lifted.prompt_hash() == LOADED.prompt_hash()
    assert (lifted.system, lifted.temperature, lifted.max_tokens) == ("Be brief.", 0.5, 50)
    assert lifted.json_schema == SCHEMA


@dialects
def test_10_requests_with_different_keys_have_different_bodies(dialect: Dialect) -> None:
    """In the reference, two system prompts had two hashes and one body."""
    bodies = [
        sent(dialect, ask(**change))
        for change in (
            {},
            {"system": "Be verbose."},
            {"temperature": 0.7},
            {"max_tokens": 51},
            {"top_p": 0.1},
        )
    ]

    assert all(one != other for i, one in enumerate(bodies) for other in bodies[:i])
    assert "system" not in PROBE["claude_complete"]["wire"]


def test_10_usage_of_ollama_is_reported() -> None:
    outcome, _ = run(OLLAMA, complete, whole(OLLAMA.answer("hi", usage=TokenUsage(3, 4))))

    assert outcome.usage == TokenUsage(3, 4)
    assert PROBE["ollama_complete"]["result"]["ok"]["usage"] is None


PLACES: dict[str, dict[str, Any]] = {
    "system": {"system": "[SENSITIVITY:HIGH] secret"},
    "a message": {"messages": "[sens:high] secret"},
    "a tool's result": {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "f", "arguments": {}}]},
            {"role": "tool", "content": "[Sensitivity: High] secret", "tool_call_id": "c"},
        ]
    },
    "the schema": {"json_schema": {"type": "object", "description": "[SENS:HIGH]"}},
    "a tool": {"tools": [{"name": "f", "description": "[sens:high]", "input_schema": {"type": "object"}}]},
    "a long label": {
        "messages": "[SENSITIVITY: high - trial 17, never to be sent to anybody who has no part in it]"
    },
    "a label over two lines": {"messages": "[sens\n:\thigh]"},
    "text that travels as data": {
        "messages": [
            {
                "role": "user",
                "content": "",
                "parts": [
                    {"type": "image", "data": "W3NlbnM6aGlnaF0gc2VjcmV0"},
                    {"type": "text", "text": ""},
                ],
            }
        ]
    },
    "an argument": {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "name": "f", "arguments": {"[sens:high]": 1}}],
            },
            {"role": "tool", "content": "r", "tool_call_id": "c"},
        ]
    },
}


@dialects
@both
@pytest.mark.parametrize("place", PLACES)
def test_11_the_gate_guards_complete_and_stream_everywhere(dialect: Dialect, call: Any, place: str) -> None:
    """Nothing is sent, not even a look at the model list."""
    outcome, provider = run(dialect, call, whole(dialect.answer()), request=ask(**PLACES[place]))

    assert isinstance(outcome, InvalidRequest)
    assert "sensitivity" in outcome.reason
    assert "secret" not in str(outcome)
    assert provider.received == []


@pytest.mark.parametrize(
    ("most", "passes"),
    [("low", ["low"]), ("medium", ["low", "medium"]), ("high", ["low", "medium", "high", "none", "top"])],
)
def test_11_each_level_is_a_thing_of_its_own(most: str, passes: list[str]) -> None:
    """The reference took low for medium. An unknown level counts as high."""
    for level in ("low", "medium", "high", "none", "top", ""):
        request = ask(f"a [SENSITIVITY:{level}] b")
        outcome, _ = run(CLAUDE, complete, whole(CLAUDE.answer()), request=request, max_sensitivity=most)
        passed = not isinstance(outcome, LlmError)
        assert passed == (level in passes or (most == "high")), (level, outcome)


def test_12_a_normal_claude_stream_has_no_error_and_keeps_its_stop_reason() -> None:
    """Events as Anthropic sends them: a ping, and a message_delta whose delta has no type."""
    events = [
        (
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
            b'"role":"assistant","content":[],"model":"claude-real","stop_reason":null,'
            b'"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
        ),
        (
            b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            b'"content_block":{"type":"text","text":""}}\n\n'
        ),
        b'event: ping\ndata: {"type": "ping"}\n\n',
        (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"Hel"}}\n\n'
        ),
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
        (
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},'
            b'"usage":{"output_tokens":50}}\n\n'
        ),
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]

    outcome, _ = run(CLAUDE, read_stream, stream(events))

    assert [(chunk.delta, chunk.finish_reason) for chunk in outcome] == [("Hel", None), ("", "length")]
    assert outcome[-1].response.model == "claude-real"
    assert outcome[-1].response.usage == TokenUsage(3, 50)


@dialects
def test_13_a_truncated_stream_and_an_error_event_are_errors(dialect: Dialect) -> None:
    events = dialect.events("He", "l")

    outcome, _ = run(dialect, read_stream, stream(events[:-1], dialect.media_type))
    assert type(outcome) is Transport

    broken = [*events[:-1], dialect.error_event("overloaded")]
    outcome, _ = run(dialect, read_stream, stream(broken, dialect.media_type))
    assert type(outcome) is Upstream

    outcome, _ = run(dialect, complete, whole(dialect.error(500, "model not found")))
    assert type(outcome) is Upstream


# 14, that streams are buffered whole: test_the_first_chunk_comes_while_the_server_still_talks.


def test_15_null_content_is_an_empty_text_and_the_served_model_is_reported() -> None:
    call = ToolCall(id="c", name="f", arguments={"a": 1})
    body = CHAT.answer("", tool_calls=(call,), finish_reason="tool_calls")
    assert body["choices"][0]["message"]["content"] is None

    outcome, _ = run(CHAT, complete, whole(body))

    assert (outcome.text, outcome.tool_calls, outcome.model) == ("", (call,), "the-real-model")
    assert PROBE["openai_null_content"]["err"].startswith("response parse")


def test_15_a_stream_has_one_finish() -> None:
    events = [
        b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"He"}}]}\n\n',
        b'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\n',
        b"data: [DONE]\n\n",
    ]

    outcome, _ = run(CHAT, read_stream, stream(events))

    assert [(chunk.delta, chunk.finish_reason) for chunk in outcome] == [("He", None), ("", "length")]


@dialects
@both
def test_15_the_timeout_of_the_request_holds_for_both_verbs(dialect: Dialect, call: Any) -> None:
    outcome, _ = run(dialect, call, silence, request=ask(timeout_ms=150))

    assert isinstance(outcome, Timeout)
    assert outcome.timeout_ms == 150


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:x@evil.example.com/",
        "http://localhost@evil.example.com",
        "http://127.0.0.1@evil.example.com",
        "http://localhost:11434@evil.example.com:80/",
        "http://evil.example.com/?@localhost",
        "http://evil.example.com#@localhost",
        "http://localhost.evil.example.com",
        "http://127.0.0.1.evil.example.com",
        "http://evil.example.com\\@localhost",
        "http://[::ffff:8.8.8.8]",
        "http://0.0.0.0:11434",
        "http://2130706433x/",
        "https://ollama.example.com",
        "http://localhost%2eevil.example.com",
        "http://lоcalhost:11434",  # a Cyrillic o
        "ftp://localhost",
        "localhost:11434",
        "http://",
        "",
        "http://127.0.0.1:99999",
    ],
)
def test_16_only_a_loopback_host_is_loopback(url: str) -> None:
    with pytest.raises(InvalidRequest, match="base_url"):
        OllamaAdapter(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:1",
        "http://LOCALHOST:1",
        "http://127.0.0.1:1",
        "http://127.9.9.9",
        "http://[::1]:1/x",
    ],
)
def test_16_what_is_loopback(url: str) -> None:
    OllamaAdapter(url)
    OllamaAdapter("https://ollama.example.com", allow_remote=True)


def test_16_nobody_hides_a_host_behind_a_user_name() -> None:
    """In the OpenAI-compatible adapter neither, which may ask any host."""
    with pytest.raises(InvalidRequest, match="user name"):
        OpenAICompatAdapter("http://localhost:x@evil.example.com/")


def test_17_all_text_blocks_are_returned() -> None:
    body = CLAUDE.answer("one ")
    body["content"] += [{"type": "text", "text": "two"}]

    outcome, _ = run(CLAUDE, complete, whole(body))

    assert outcome.text == "one two"


@dialects
@both
def test_17_an_answer_to_a_schema_is_parsed_and_checked(dialect: Dialect, call: Any) -> None:
    def answered(text: str) -> object:
        body = whole(dialect.answer(text))
        if call is read_stream:
            body = stream(dialect.events(text), dialect.media_type)
        outcome, _ = run(dialect, call, body, request=ask(json_schema=SCHEMA))
        return outcome[-1].response if isinstance(outcome, list) else outcome

    good = answered('{"a": 1}')
    assert good.parsed_json == {"a": 1}  # type: ignore[attr-defined]
    for bad in ("Sure! Here it is:", '{"a": "x-ray"}', "{}", '{"a": 1', '{"a": 1, "a": 2}', ""):
        outcome = answered(bad)
        assert type(outcome) is ResponseParse, (bad, outcome)
        assert "x-ray" not in str(outcome)


def test_17_a_schema_that_cannot_be_used_is_refused_before_a_token_is_spent() -> None:
    for schema in ({"type": "objekt"}, {"$ref": "https://example.com/s.json"}, {"$ref": "#/x"}, "{}", 5):
        outcome, provider = run(CLAUDE, complete, whole(CLAUDE.answer()), request=ask(json_schema=schema))
        assert isinstance(outcome, InvalidRequest), schema
        assert outcome.field == "json_schema"
        assert provider.received == []


def test_17_a_tool_result_is_one() -> None:
    """Claude's was a plain user message, and OpenAI's had lost its call."""
    claude = sent(CLAUDE, LOADED)["messages"]
    assert claude[1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}
    assert claude[2]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "t"}]

    chat = sent(CHAT, LOADED)["messages"]
    assert chat[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x":1}'}
    assert chat[3] == {"role": "tool", "content": "t", "tool_call_id": "c1"}


@dialects
def test_18_the_size_limit_is_the_one_that_was_set(dialect: Dialect) -> None:
    """The reference's 16 MiB were never reached, because its client stopped at 10."""
    text = "x" * (12 * 2**20)

    outcome, _ = run(dialect, complete, whole(dialect.answer(text)), request=ask(timeout_ms=30_000))
    assert outcome.text == text

    outcome, _ = run(dialect, complete, whole(dialect.answer(text)), max_body_bytes=11 * 2**20)
    assert type(outcome) is ResponseParse


def test_18_a_message_that_says_timeout_is_no_timeout() -> None:
    """The reference guessed from the text of an error."""
    outcome, _ = run(CLAUDE, complete, whole(CLAUDE.error(500, "upstream timeout: timed out"), 500))

    assert type(outcome) is Upstream


def test_18_a_representation_shows_no_key() -> None:
    async def main() -> str:
        async with serving(whole(CHAT.answer())) as provider, CHAT.adapter(provider.url) as adapter:
            return repr(adapter) + repr(adapter.__dict__)

    assert "sk-canary" not in asyncio.run(main())
