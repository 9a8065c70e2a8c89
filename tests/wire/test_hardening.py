"""What hostile or careless peers send, and what must come of it."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import (
    InvalidRequest,
    LlmError,
    LlmResponse,
    ResponseParse,
    StreamChunk,
    ToolCall,
    ToolCallDelta,
    Transport,
    Upstream,
)
from cortex_replay.wire import WIRES
from cortex_replay.wire.body import DROPPED, DROPPED_WITHIN
from cortex_replay.wire.sse import sse_event
from tests.growth import grows_linearly


def key_of(protocol: str, **body: Any) -> str:
    return WIRES[protocol].lift({"model": "m", **body}).prompt_hash()


def streamed(protocol: str, *events: Any) -> list[StreamChunk]:
    raw = b"".join(sse_event(e if isinstance(e, bytes) else json.dumps(e).encode()) for e in events)
    decoder = WIRES[protocol].stream_decoder("m")
    return [*decoder.feed(raw), *decoder.finish()]


def answer_of(protocol: str, *events: Any) -> LlmResponse:
    response = streamed(protocol, *events)[-1].response
    assert response is not None
    return response


@pytest.mark.parametrize(
    "extra", [{"type": "custom", "custom": {"name": "f", "input": "x"}}, {"signature": "s"}]
)
def test_results_that_change_places_change_the_key(extra: dict[str, Any]) -> None:
    """Also where the calls have no form here, so that only their ids tell the results apart."""

    def key(first: str, second: str, ids: tuple[str, str] = ("a", "b")) -> str:
        calls = [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}, **extra} for i in ids
        ]
        return key_of(
            "openai-chat",
            messages=[
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": first, "content": "one"},
                {"role": "tool", "tool_call_id": second, "content": "two"},
            ],
        )

    assert key("a", "b") != key("b", "a")
    assert key("a", "b") == key("x", "y", ("x", "y"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"type": "apply_patch_call_output", "status": "completed"},
            {"type": "apply_patch_call_output", "status": "failed"},
        ),
        ({"type": "compaction", "encrypted_content": "a"}, {"type": "compaction", "encrypted_content": "b"}),
        ({"id": "msg_a"}, {"id": "msg_b"}),
        ({"type": None, "id": "msg_a"}, {"type": None, "id": "msg_b"}),
        ({"type": "item_reference", "id": "a"}, {"type": "item_reference", "id": "b"}),
    ],
)
def test_items_that_a_model_tells_apart_have_two_keys(one: Any, other: Any) -> None:
    assert key_of("openai-responses", input=[one]) != key_of("openai-responses", input=[other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "a"},
            {"type": "reasoning", "summary": []},
        ),
        ({"type": "web_search_call", "id": "a", "status": "x"}, {"type": "web_search_call", "id": "b"}),
        ({"type": "web_search_call", "action": None}, {"type": "web_search_call"}),
    ],
)
def test_items_that_a_model_cannot_tell_apart_have_one(one: Any, other: Any) -> None:
    assert key_of("openai-responses", input=[one]) == key_of("openai-responses", input=[other])


def test_numbers_are_what_they_are_however_they_are_spelled() -> None:
    for name in ("top_k", "max_tokens", "seed"):
        assert key_of("openai-chat", messages=[], **{name: 40}) == key_of(
            "openai-chat", messages=[], **{name: 40.0}
        )
    with pytest.raises(InvalidRequest):
        key_of("openai-chat", messages=[], seed=10**400)


def test_a_token_for_a_tool_server_is_no_part_of_the_key() -> None:
    def claude(token: str) -> str:
        servers = [{"type": "url", "url": "https://example.com", "authorization_token": token}]
        return key_of("anthropic-messages", messages=[], mcp_servers=servers)

    def openai(token: str) -> str:
        tool = {
            "type": "mcp",
            "server_url": "https://example.com",
            "authorization": token,
            "headers": {"x": token},
        }
        return key_of("openai-responses", input="q", tools=[tool])

    assert claude("a") == claude("b")
    assert openai("a") == openai("b")


@pytest.mark.parametrize("kind", [[], {}, 5, None])
def test_a_block_of_an_impossible_type_is_kept_as_it_is(kind: Any) -> None:
    content = [{"type": kind, "text": "x"}, {"type": "text"}]
    for role in ("user", "assistant"):
        WIRES["anthropic-messages"].lift({"model": "m", "messages": [{"role": role, "content": content}]})
    for protocol, role in (("openai-chat", "system"), ("openai-chat", "user")):
        WIRES[protocol].lift({"model": "m", "messages": [{"role": role, "content": content}]})


def test_data_of_a_file_that_is_no_url_is_sent_as_it_came() -> None:
    wire = WIRES["openai-responses"]
    block = {"type": "input_file", "file_data": "QUJD", "filename": "a"}
    request = wire.lift({"model": "m", "input": [{"role": "user", "content": [block]}]})

    assert wire.lower(request)["input"][0]["content"] == [block]


def test_system_parts_beside_instructions_survive() -> None:
    wire = WIRES["openai-responses"]
    items = [{"role": "developer", "content": "b", "name": "ops"}, {"role": "user", "content": "q"}]
    request = wire.lift({"model": "m", "instructions": "a", "input": items})

    assert request.system == "a\n\nb"
    assert wire.lift(wire.lower(request)) == request


NOT_WHOLE: dict[str, tuple[str, list[Any], type[LlmError]]] = {
    "only [DONE]": ("openai-chat", [b"[DONE]"], Transport),
    "no finish reason": ("openai-chat", [{"choices": [{"delta": {"content": "a"}}]}, b"[DONE]"], Transport),
    "an error that is a number": ("openai-chat", [{"error": 429}, b"[DONE]"], Upstream),
    "only message_stop": ("anthropic-messages", [{"type": "message_stop"}], Transport),
    "failed": ("openai-responses", [{"type": "response.failed"}], Upstream),
    "failed, with details": (
        "openai-responses",
        [{"type": "response.failed", "response": {"error": {"code": "x", "message": "y"}}}],
        Upstream,
    ),
    "queued": (
        "openai-responses",
        [{"type": "response.completed", "response": {"status": "queued"}}],
        Upstream,
    ),
    "an end that says something else": (
        "openai-responses",
        [
            {"type": "response.output_text.delta", "delta": "ok"},
            {
                "type": "response.completed",
                "response": {
                    "output": [
                        {
                            "type": "function_call",
                            "call_id": "c",
                            "name": "bash",
                            "arguments": '{"cmd": "rm"}',
                        }
                    ]
                },
            },
        ],
        ResponseParse,
    ),
    "an index of an impossible kind": (
        "anthropic-messages",
        [{"type": "content_block_start", "index": [], "content_block": {"type": "tool_use"}}],
        Transport,
    ),
    "deep arguments": (
        "anthropic-messages",
        [
            b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":'
            + b'{"a":' * 300
            + b"1"
            + b"}" * 302
        ],
        ResponseParse,
    ),
}


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_a_stream_that_is_not_whole_is_an_error(name: str) -> None:
    """And never an answer that would be recorded."""
    protocol, events, error = NOT_WHOLE[name]

    with pytest.raises(error):
        streamed(protocol, *events)


@pytest.mark.parametrize("status", ["queued", "in_progress", "failed", "cancelled"])
def test_a_response_that_is_not_whole_is_an_error(status: str) -> None:
    with pytest.raises(Upstream, match=status):
        WIRES["openai-responses"].decode_answer(json.dumps({"status": status, "output": []}).encode(), "m")


@pytest.mark.parametrize("error", [None, "", {}, 0, []])
def test_an_empty_error_is_none(error: Any) -> None:
    body = {"error": error, "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}

    assert WIRES["openai-chat"].decode_answer(json.dumps(body).encode(), "m").text == "a"


def test_an_answer_that_comes_only_at_the_end_is_an_answer() -> None:
    output = [
        {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
    ]

    answer = answer_of(
        "openai-responses",
        {"type": "response.completed", "response": {"status": "completed", "output": output}},
    )

    assert (answer.text, answer.tool_calls) == ("hi", (ToolCall(id="c", name="f", arguments={"a": 1}),))


def piece(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": [fields]}}]}


END = ({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, b"[DONE]")
SEVERAL: dict[str, list[Any]] = {
    "indices": [
        piece(index=0, id="a", function={"name": "f", "arguments": "{"}),
        piece(index=1, id="b", function={"name": "g", "arguments": "{"}),
        piece(index=0, function={"arguments": "}"}),
        piece(index=1, function={"arguments": "}"}),
    ],
    "one index, several ids": [
        piece(index=0, id="a", function={"name": "f", "arguments": "{}"}),
        piece(index=0, id="b", function={"name": "g", "arguments": "{}"}),
    ],
    "no index": [
        piece(id="a", function={"name": "f", "arguments": "{"}),
        piece(function={"arguments": "}"}),
        piece(id="b", function={"name": "g", "arguments": "{}"}),
    ],
    "the id in every piece": [
        piece(index=0, id="a", function={"name": "f", "arguments": "{"}),
        piece(index=0, id="a", function={"arguments": "}"}),
        piece(index=1, id="b", function={"name": "g", "arguments": "{}"}),
    ],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_calls_are_told_apart(name: str) -> None:
    """By whatever the server gives: indices, ids, or names."""
    answer = answer_of("openai-chat", *SEVERAL[name], *END)

    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("a", "f", {}),
        ("b", "g", {}),
    ]


def test_several_calls_without_index_and_id_are_told_apart_by_name() -> None:
    pieces = [piece(function={"name": n, "arguments": "{}"}) for n in ("f", "g")]

    assert [call.name for call in answer_of("openai-chat", *pieces, *END).tool_calls] == ["f", "g"]


def test_several_calls_of_a_server_without_output_indices() -> None:
    def events(item_id: str, name: str) -> list[Any]:
        item = {"type": "function_call", "id": item_id, "call_id": item_id, "name": name}
        return [
            {"type": "response.output_item.added", "item": item},
            {"type": "response.function_call_arguments.delta", "item_id": item_id, "delta": "{}"},
            {"type": "response.output_item.done", "item": item | {"arguments": "{}"}},
        ]

    end = {"type": "response.completed", "response": {"status": "completed"}}
    answer = answer_of("openai-responses", *events("a", "f"), *events("b", "g"), end)

    assert [(call.name, call.arguments) for call in answer.tool_calls] == [("f", {}), ("g", {})]


def test_arguments_that_come_twice_count_once() -> None:
    """Whole in the start of the block, and again in pieces; or only in the start, with no stop."""

    def answer(*deltas: str) -> LlmResponse:
        block = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
        return answer_of(
            "anthropic-messages",
            {"type": "content_block_start", "index": 0, "content_block": block},
            *(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": d},
                }
                for d in deltas
            ),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        )

    assert (
        answer('{"a":', "1}").tool_calls
        == answer().tool_calls
        == (ToolCall(id="c", name="f", arguments={"a": 1}),)
    )


@pytest.mark.parametrize("protocol", [name for name in WIRES if name != "openai-completions"])
def test_calls_whose_pieces_mix_are_written_one_after_the_other(protocol: str) -> None:
    """And a call whose name comes late has it all the same."""
    calls = (ToolCall(id="a", name="f", arguments={"x": 1}), ToolCall(id="b", name="g", arguments={"y": 2}))
    response = LlmResponse("", None, "m", None, "", "tool_calls", calls)
    pieces = [
        ToolCallDelta(0, "a"),
        ToolCallDelta(1, "b", "g", '{"y"'),
        ToolCallDelta(0, None, "f", '{"x"'),
        ToolCallDelta(1, arguments=":2}"),
        ToolCallDelta(0, arguments=":1}"),
    ]
    encoder = WIRES[protocol].stream_encoder("m", "1")
    raw = encoder.start() + b"".join(encoder.chunk(StreamChunk("", tool_calls=(piece,))) for piece in pieces)
    raw += encoder.chunk(StreamChunk("", "tool_calls", response=response))
    decoder = WIRES[protocol].stream_decoder("m")

    last = [*decoder.feed(raw), *decoder.finish()][-1].response

    assert last is not None
    assert sorted((call.name, str(call.arguments)) for call in last.tool_calls) == [
        ("f", "{'x': 1}"),
        ("g", "{'y': 2}"),
    ]


def test_a_refusal_survives_its_stream() -> None:
    for protocol in ("openai-chat", "openai-responses", "anthropic-messages"):
        response = LlmResponse("No.", None, "m", None, "", "refusal")
        encoder = WIRES[protocol].stream_encoder("m", "1")
        raw = encoder.start() + encoder.chunk(StreamChunk("No."))
        raw += encoder.chunk(StreamChunk("", "refusal", response=response))
        decoder = WIRES[protocol].stream_decoder("m")

        last = [*decoder.feed(raw), *decoder.finish()][-1].response

        assert last is not None
        assert (last.text, last.finish_reason) == ("No.", "refusal")


@pytest.mark.parametrize("protocol", WIRES)
def test_writing_a_long_stream_costs_its_length(protocol: str) -> None:
    """Not its square."""

    def write(chunks: int) -> None:
        encoder = WIRES[protocol].stream_encoder("m", "1")
        for _ in range(chunks):
            encoder.chunk(StreamChunk("x" * 20))

    assert grows_linearly(lambda: write(4000), lambda: write(8000))


def test_what_codex_says_of_itself_is_not_part_of_the_key() -> None:
    """New ids in every run; a model sees none of it."""

    def key(run: int, said: str = "hello") -> str:
        records = {"internal_chat_message_metadata_passthrough": {"turn_id": f"turn-{run}"}}
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        items = [
            {"role": "user", "content": said, **records},
            {"type": "reasoning", "summary": [], **records},
            {**call, **records},
            {"type": "function_call_output", "call_id": "c", "output": "1", **records},
        ]
        return key_of("openai-responses", input=items, client_metadata={"session_id": f"session-{run}"})

    assert key(1) == key(2)
    assert key(1) != key(1, "goodbye")


def test_what_codex_says_of_instructions_is_not_part_of_the_key() -> None:
    """Where they are more than text, they count as they are, but for the ids of this run."""

    def key(run: int, title: str = "rules") -> str:
        rules = {"type": "input_file", "filename": title, "file_id": "file-1"}
        records = {"internal_chat_message_metadata_passthrough": {"turn_id": f"turn-{run}"}}
        leading = {"role": "developer", "id": f"msg_{run}", "status": "completed", "content": [rules]}
        items = [{**leading, **records}, {"role": "user", "content": "hello"}]
        return key_of("openai-responses", input=items)

    assert key(1) == key(2)
    assert key(1) != key(1, "other rules")


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat", "openai-responses"])
def test_the_list_of_what_no_model_sees_holds_at_every_depth(protocol: str) -> None:
    """Wherever a client puts such a field, the key is that of the body without it."""
    wire = WIRES[protocol]
    said = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    body = {"model": "m", "max_tokens": 9, "input" if protocol == "openai-responses" else "messages": said}
    plain = wire.lift(body).prompt_hash()

    for name in DROPPED:
        assert wire.lift({**body, name: {"new": 1}}).prompt_hash() == plain, name
    for name in DROPPED_WITHIN:
        within: Any = copy.deepcopy(body)
        message = within.get("input", within.get("messages"))[0]
        message[name] = message["content"][0][name] = {"new": 1}
        assert wire.lift(within).prompt_hash() == plain, name


def test_the_documentation_lists_what_no_model_sees() -> None:
    text = (Path(__file__).parents[2] / "docs/wires.md").read_text("utf-8")
    table = text.partition("### What no model sees")[2].partition("\n#")[0]
    rows = {
        (place, name, reason.strip())
        for place, names, reason in re.findall(r"^\| (\w+) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert rows == {
        *(("body", name, reason) for name, reason in DROPPED.items()),
        *(("within", name, reason) for name, reason in DROPPED_WITHIN.items()),
    }
