"""A part keeps what a server needs; the key and a fixture hold what the model sees."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cortex_replay import LlmMessage, LlmRequest, blake3_hex

PIXEL = b"\x89PNG not really"
DATA = base64.b64encode(PIXEL).decode()


def request_with(*parts: Any, **fields: Any) -> LlmRequest:
    return LlmRequest("m", "", [LlmMessage("user", "", parts=parts, **fields)])


def stored(*parts: Any) -> Any:
    return request_with(*parts).to_dict()["messages"][0]["parts"]  # type: ignore[index,call-overload]


def test_data_is_hashed_and_stored_by_its_digest() -> None:
    """However it was wrapped; the request itself can still be sent."""
    image = {"type": "image", "media_type": "image/png", "data": DATA}
    by_digest = {"type": "image", "media_type": "image/png", "blake3": blake3_hex(PIXEL)}

    assert stored(image) == [by_digest]
    assert request_with(image).messages[0].parts == (image,)
    wrapped = image | {"data": DATA[:8] + "\r\n" + DATA[8:] + "\n"}
    keys = {request_with(part).prompt_hash() for part in (image, by_digest, wrapped)}
    assert len(keys) == 1
    assert request_with(image | {"data": base64.b64encode(b"other").decode()}).prompt_hash() not in keys


@pytest.mark.parametrize("data", ["@@@", "YQ", "YQ==YQ==", "ÿ", 5, None])
def test_data_that_cannot_be_decoded_counts_as_it_is(data: Any) -> None:
    part = {"type": "image", "data": data}

    assert stored(part) == [part]


def test_data_of_other_parts_is_not_touched() -> None:
    part = {"type": "redacted_thinking", "data": DATA}

    assert stored(part) == [part]


@pytest.mark.parametrize("name", ["signature", "cache_control"])
def test_what_only_the_provider_checks_does_not_count(name: str) -> None:
    """Neither in a block, nor in the blocks inside it; but a tool's input is the model's."""
    bare = {"type": "thinking", "thinking": "hm"}
    assert stored(bare | {name: "x"}) == [bare]
    nested = {"type": "tool_result", "content": [{"type": "text", "text": "a", name: "x"}, "b"]}
    assert stored(nested) == [{"type": "tool_result", "content": [{"type": "text", "text": "a"}, "b"]}]
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {name: "x"}}
    assert stored(call) == [call]


def test_ids_inside_parts_are_numbered_with_all_others() -> None:
    def key(first: str, second: str) -> str:
        parts = (
            {"type": "tool_use", "id": first, "name": "f", "input": {}},
            {"type": "server_tool_use", "id": second, "name": "g", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": second, "content": []},
            {"type": "verbatim", "verbatim": {"type": "custom_tool_call", "call_id": first}},
        )
        return LlmRequest(
            "m",
            "",
            [
                LlmMessage("assistant", "", parts=parts),
                LlmMessage("tool", "", tool_call_id=first),
            ],
        ).prompt_hash()

    assert key("a", "b") == key("x", "y")
    assert key("a", "a") != key("a", "b")


def test_ids_of_verbatim_items_do_not_count_but_for_references() -> None:
    item = {"type": "reasoning", "summary": []}
    assert stored(
        {"type": "verbatim", "verbatim": item | {"id": "1", "status": "x", "encrypted_content": "y"}}
    ) == [{"type": "verbatim", "verbatim": item}]
    reference = {"type": "verbatim", "verbatim": {"type": "item_reference", "id": "1"}}
    assert stored(reference) == [reference]
