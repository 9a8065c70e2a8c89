"""A body is sent only if it would be read as the very request that it was made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest
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
