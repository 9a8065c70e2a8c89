"""Labels: in whatever a model would see, however they are written, text above the limit stays at home."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest, ToolCall
from cortex_replay.redact.clearance import places_above
from cortex_replay.redact.sensitivity import (
    Sensitivity,
    is_above,
    may_hold_label,
    refuse_above,
    refuse_value_above,
)

LABEL = "[SENSITIVITY:high]"
LOW, MEDIUM, HIGH = Sensitivity


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def request(*messages: LlmMessage, **fields: Any) -> LlmRequest:
    return LlmRequest("m", messages=messages or (LlmMessage("user", "Hi"),), **fields)


def places(text: str) -> dict[str, LlmRequest]:
    """A text at every place of a request."""
    tool = {"name": "look", "description": "d", "input_schema": {"type": "object"}}
    called = ToolCall(id="1", name="look", arguments={"city": text})
    named = ToolCall(id="1", name="look", arguments={text: "Paris"})
    document = {"type": "document", "media_type": "text/plain", "data": data(f"It says {text}.")}
    return {
        "system": request(system=text),
        "messages[0]": request(LlmMessage("user", text)),
        "messages[1]": request(LlmMessage("user", "a"), LlmMessage("assistant", text)),
        "messages[0] in a part": request(LlmMessage("user", "", parts=({"type": "text", "text": text},))),
        "messages[0] in an argument": request(LlmMessage("assistant", "", tool_calls=(called,))),
        "messages[0] in the name of an argument": request(LlmMessage("assistant", "", tool_calls=(named,))),
        "messages[0] of a tool": request(LlmMessage("tool", text, tool_call_id="1")),
        "messages[0].parts[0] in data": request(LlmMessage("user", "", parts=(document,))),
        "messages[1].parts[1] in data": request(
            LlmMessage("user", "a"), LlmMessage("user", "b", parts=({"type": "text", "text": "b"}, document))
        ),
        "tools[0]": request(tools=[{**tool, "description": text}]),
        "tools[1] in a name": request(tools=[tool, {**tool, "input_schema": {text: {}}}]),
        "json_schema": request(json_schema={"type": "object", "description": text}),
        "stop": request(stop=[text]),
        "extra": request(extra={"thinking": {"of": text}}),
    }


@pytest.mark.parametrize("place", places(LABEL))
def test_a_label_is_seen_wherever_it_stands(place: str) -> None:
    labelled = places(LABEL)[place]
    refuse_above(labelled, HIGH)
    refuse_above(places("no label")[place], LOW)

    with pytest.raises(InvalidRequest) as caught:
        refuse_above(labelled, MEDIUM)

    assert caught.value.field == place.partition(" ")[0]
    assert LABEL not in str(caught.value)


SPELLINGS = {
    "[SENSITIVITY:high]": HIGH,
    "[sensitivity:HIGH]": HIGH,
    "[Sens:high]": HIGH,
    "[ sens : high ]": HIGH,
    "[\N{NO-BREAK SPACE}sens:high]": HIGH,
    "[\N{LATIN SMALL LETTER LONG S}ens:high]": HIGH,
    "[\tsens:high]": HIGH,
    "[sens:medium]": MEDIUM,
    "[sens:low]": LOW,
    "[sens:hihg]": HIGH,
    "[sens:]": HIGH,
    "[sens:secret]": HIGH,
    "[sens:low] and [sens:high]": HIGH,
    "[[sens:medium]]": MEDIUM,
}
"""What counts as a label, and how high."""


@pytest.mark.parametrize("text", SPELLINGS)
@pytest.mark.parametrize("most", Sensitivity)
def test_a_level_holds_up_to_its_rank(text: str, most: Sensitivity) -> None:
    expected = SPELLINGS[text].rank > most.rank
    asked = request(LlmMessage("user", f"a {text} b"))

    assert is_above(text, most) == expected
    assert may_hold_label(asked.canonical_bytes()), "the quick look sees it, too"
    if expected:
        with pytest.raises(InvalidRequest):
            refuse_above(asked, most)
    else:
        refuse_above(asked, most)


@pytest.mark.parametrize("text", ["sens:high", "[sense:high", "[sens high]", "[s:high]", "(sens:high)", ""])
def test_what_is_no_label_passes(text: str) -> None:
    refuse_above(request(LlmMessage("user", text)), LOW)


def test_data_that_is_no_text_passes() -> None:
    for held in (base64.b64encode(b"\xff\xfe" + LABEL.encode()).decode(), "no base64!", 7):
        part: Any = {"type": "image", "media_type": "image/png", "data": held}
        refuse_above(request(LlmMessage("user", "", parts=(part,))), LOW)


DOCUMENTS: dict[str, Any] = {
    "a text": LABEL,
    "a list": ["a", [LABEL]],
    "an entry": {"a": {"b": f"x {LABEL}"}},
    "a name": {"a": {LABEL: 1}},
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_searched_as_a_request_is(name: str) -> None:
    """By the gate, and by the clearance of a store."""
    document = DOCUMENTS[name]
    with pytest.raises(InvalidRequest):
        refuse_value_above(document, MEDIUM, "body")
    refuse_value_above(document, HIGH, "body")

    found = list(places_above(document, MEDIUM))
    assert len(found) == 1
    assert LABEL not in found[0]
    assert list(places_above(document, HIGH)) == []
