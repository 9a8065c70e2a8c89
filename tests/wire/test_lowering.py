"""A body is sent only if it would be read as the very request that it was made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest, ToolCall
from cortex_replay.wire import WIRES
from cortex_replay.wire.base import Wire
from cortex_replay.wire.body import Body

QUESTION = LlmRequest(
    "m",
    "Be short.",
    (LlmMessage("user", "One?"), LlmMessage("assistant", "Two."), LlmMessage("user", "Three?")),
    temperature=0.5,
    max_tokens=9,
)

LOSSES: dict[str, tuple[Callable[[LlmRequest], LlmRequest], str]] = {
    "the temperature": (lambda asked: replace(asked, temperature=None), "temperature"),
    "another temperature": (lambda asked: replace(asked, temperature=0.25), "temperature"),
    "the system text": (lambda asked: replace(asked, system=""), "system"),
    "the last message": (lambda asked: replace(asked, messages=asked.messages[:-1]), "messages[2]"),
    "a word": (
        lambda asked: replace(asked, messages=(LlmMessage("user", "Zero?"), *asked.messages[1:])),
        "messages[0].content",
    ),
    "something that was not asked": (lambda asked: replace(asked, top_p=0.5), "top_p"),
}
"""What a codec might get wrong, and where the error has to point to."""


def careless(wire: Wire, loss: Callable[[LlmRequest], LlmRequest]) -> Wire:
    """A wire that loses something on the way."""

    def encode(request: LlmRequest) -> Body:
        return wire.encode_request(loss(request))

    return replace(wire, encode_request=encode)


SHORT = replace(QUESTION, system="", messages=QUESTION.messages[:1])
ONE_MESSAGE = {"openai-completions": replace(SHORT, extra={"raw": True}), "ollama-generate": SHORT}
"""Wires that carry a single question, as they can."""
CASES = [
    (protocol, loss)
    for protocol in WIRES
    for loss in LOSSES
    if protocol not in ONE_MESSAGE or loss not in {"the system text", "the last message"}
]


@pytest.mark.parametrize(("protocol", "loss"), CASES)
def test_a_body_that_would_have_another_key_is_not_sent(protocol: str, loss: str) -> None:
    change, place = LOSSES[loss]
    asked = ONE_MESSAGE.get(protocol, QUESTION)
    wire = WIRES[protocol]

    assert wire.lift(wire.lower(asked)) == asked
    assert wire.lower(change(asked)), "it could be said; only not for this request"
    with pytest.raises(InvalidRequest, match=f"{protocol} cannot carry it so") as refused:
        careless(wire, change).lower(asked)
    assert refused.value.field == place


def test_the_error_says_what_is_lost_within_a_value() -> None:
    """A whole object has no place: its first field is named, which a reader looks for."""
    asked = replace(QUESTION, extra={"reasoning": {"effort": "high"}})
    wire = careless(WIRES["openai-responses"], lambda request: replace(request, extra={}))

    with pytest.raises(InvalidRequest, match="it has no place there") as refused:
        wire.lower(asked)
    assert refused.value.field == "extra.reasoning"


def ask(*messages: LlmMessage, **fields: Any) -> LlmRequest:
    return LlmRequest("m", "", messages or (LlmMessage("user", "Hi"),), max_tokens=9, **fields)


def said(**part: Any) -> LlmMessage:
    """A message of a user that has a block beside its text."""
    return LlmMessage("user", "Hi", parts=({"type": "text", "text": "Hi"}, part))


NO_ID = LlmMessage("assistant", "", tool_calls=(ToolCall(name="f", arguments={}),))
WITH_ID = LlmMessage("assistant", "", tool_calls=(ToolCall(name="f", arguments={}, id="a"),))
NO_CALL = LlmMessage("tool", "42")
S3 = {"type": "url", "url": "https://example.com/a.png"}

REFUSALS: dict[str, tuple[str, LlmRequest, str]] = {
    "a call without an id (anthropic)": (
        "anthropic-messages",
        ask(NO_ID),
        "an id for every tool call",
    ),
    "a call without an id (chat)": ("openai-chat", ask(NO_ID), "an id for every tool call"),
    "a call without an id (responses)": ("openai-responses", ask(NO_ID), "an id for every tool call"),
    "a result of no call (anthropic)": ("anthropic-messages", ask(WITH_ID, NO_CALL), "which call it answers"),
    "a result of no call (chat)": ("openai-chat", ask(WITH_ID, NO_CALL), "which call it answers"),
    "a result of no call (responses)": ("openai-responses", ask(WITH_ID, NO_CALL), "which call it answers"),
    "a hash in place of data": (
        "openai-chat",
        ask(said(type="image", blake3="0" * 64)),
        "give the data itself",
    ),
    "a thought of another wire (chat)": (
        "openai-chat",
        ask(LlmMessage("assistant", "a", parts=({"type": "redacted_thinking", "data": "x"},))),
        "cannot carry a block of type redacted_thinking",
    ),
    "a thought of another wire (responses)": (
        "openai-responses",
        ask(LlmMessage("assistant", "a", parts=({"type": "redacted_thinking", "data": "x"},))),
        "cannot carry a block of type redacted_thinking",
    ),
    "a typed image (ollama)": (
        "ollama-chat",
        ask(said(type="image", media_type="image/png", data="AA==")),
        "Ollama's images have no media_type",
    ),
    "a document (ollama)": (
        "ollama-chat",
        ask(said(type="document", data="AA==")),
        "a block of type document",
    ),
    "an odd system (ollama)": ("ollama-chat", ask(extra={"system": "text"}), "expected a list of messages"),
    "two messages (generate)": ("ollama-generate", QUESTION, "exactly one user message"),
    "two messages (completions)": ("openai-completions", QUESTION, "one prompt"),
    "a prompt in a template (completions)": ("openai-completions", ask(), "sends a prompt as it is"),
    "a choice of none (converse)": (
        "bedrock-converse",
        ask(tools=[{"name": "f", "input_schema": {}}], tool_choice={"type": "none"}),
        "can ask for any tool or for one",
    ),
    "an image by its address (converse)": (
        "bedrock-converse",
        ask(said(type="image", source=S3)),
        "takes the data of this image, or its place in S3",
    ),
    "an image of an unknown format (converse)": (
        "bedrock-converse",
        ask(said(type="image", media_type="image/x-own", data="AA==")),
        "has no format for image/x-own",
    ),
    "an unknown block (converse)": (
        "bedrock-converse",
        ask(said(type="hologram", depth=3)),
        "cannot carry this block of type hologram",
    ),
    "odd further fields (converse)": (
        "bedrock-converse",
        ask(extra={"additionalModelRequestFields": [1]}),
        "expected an object",
    ),
}
"""What a wire has no place for; nothing is sent then, and the error says what to do."""


@pytest.mark.parametrize("case", REFUSALS)
def test_what_a_wire_has_no_place_for_is_refused_with_a_reason(case: str) -> None:
    protocol, request, reason = REFUSALS[case]

    with pytest.raises(InvalidRequest, match=re.escape(reason)):
        WIRES[protocol].lower(request)


UNREADABLE: list[tuple[str, dict[str, Any], str]] = [
    ("openai-chat", {"messages": ["text"]}, "messages[0]"),
    ("openai-chat", {"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    ("openai-responses", {"input": ["text"]}, "input[0]"),
    ("openai-responses", {"input": [{"role": "user", "content": 7}]}, "input[0].content"),
    ("openai-completions", {"prompt": "a", "raw": True}, "raw"),
    ("anthropic-messages", {"messages": [], "system": 7}, "system"),
    ("anthropic-messages", {"messages": [{"role": "user", "content": ["text"]}]}, "messages[0].content"),
    (
        "anthropic-messages",
        {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 7}]}
            ]
        },
        "messages[0].content",
    ),
]


@pytest.mark.parametrize(("protocol", "body", "place"), UNREADABLE)
def test_what_no_client_sends_is_refused_by_its_place(
    protocol: str, body: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        WIRES[protocol].lift({"model": "m", "max_tokens": 9, **body})
    assert refused.value.field == place


def sent_again(protocol: str, body: dict[str, Any]) -> Any:
    """What a body becomes that is recorded, and asked again."""
    wire = WIRES[protocol]
    return wire.lower(wire.lift({"model": "m", "max_tokens": 9, **body}))


ODD_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("anthropic-messages", {"tools": [{"type": "web_search_20260101", "name": "web_search"}]}),
    ("openai-responses", {"tools": [{"type": "web_search"}]}),
    ("bedrock-converse", {"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}}),
]


@pytest.mark.parametrize(("protocol", "fields"), ODD_TOOLS)
def test_a_tool_of_the_provider_s_own_goes_out_as_it_came(protocol: str, fields: dict[str, Any]) -> None:
    text: Any = [{"text": "Hi"}] if protocol == "bedrock-converse" else "Hi"
    messages = [{"role": "user", "content": text}]
    body = {"input": messages} if protocol == "openai-responses" else {"messages": messages}

    again = sent_again(protocol, {**body, **fields})

    assert {name: again[name] for name in fields} == fields


CONVERSE: list[dict[str, Any]] = [
    {"document": {"format": "txt", "name": "a", "source": {"text": "Hello."}}},
    {"document": {"format": "txt", "name": "a", "source": {"content": [{"text": "Hello."}]}}},
    {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png", "bucketOwner": "1"}}}},
    {"video": {"format": "mp4", "source": {"bytes": "AA=="}}},
    {"unknownBlock": {"deep": [1]}},
    {"text": "a", "unknownField": 1},
]


@pytest.mark.parametrize("block", CONVERSE)
def test_a_block_of_converse_goes_out_as_it_came(block: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": [block, {"text": "Hi"}]}]

    assert sent_again("bedrock-converse", {"messages": messages})["messages"] == messages


FURTHER: list[dict[str, Any]] = [
    {"additionalModelRequestFields": [1]},
    {
        "outputConfig": {
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "null"}}}
        }
    },
]


@pytest.mark.parametrize("fields", FURTHER)
def test_fields_of_converse_that_say_nothing_known_are_part_of_the_key(fields: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    lift = WIRES["bedrock-converse"].lift

    assert lift({**body, **fields}).prompt_hash() != lift(body).prompt_hash()
