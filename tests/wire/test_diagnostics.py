"""What a provider says itself about a prompt that was not in its cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.wire.diagnostics import cache_miss_reason

SAID: Any = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 900}}
OPEN: Any = {"cache_miss_reason": None}


def whole(diagnostics: Any, protocol: str = "anthropic-messages") -> dict[str, Any]:
    return {"protocol": protocol, "stream": False, "body": json.dumps({"diagnostics": diagnostics})}


def stream(*diagnostics: Any) -> dict[str, Any]:
    documents = [{"type": "message_start", "message": {"diagnostics": diagnostics[0]}}]
    documents += [{"type": "message_delta", "delta": {"diagnostics": later}} for later in diagnostics[1:]]
    events = [{"at_ms": 0, "text": f"event: {d['type']}\ndata: {json.dumps(d)}\n\n"} for d in documents]
    return {"protocol": "anthropic-messages", "stream": True, "events": events}


@pytest.mark.parametrize(
    "wire",
    [whole(SAID), whole(SAID, "bedrock-anthropic"), stream(SAID), stream(OPEN, SAID), stream(SAID, OPEN)],
)
def test_a_reason_that_was_said_is_found(wire: dict[str, Any]) -> None:
    assert cache_miss_reason(wire) == "tools_changed"


@pytest.mark.parametrize(
    "wire",
    [
        whole(OPEN),
        whole(None),
        whole(5),
        whole({"cache_miss_reason": {"type": "x" * 65}}),
        whole({"cache_miss_reason": {"type": "\x1b[2J"}}),
        whole(SAID, "openai-chat"),
        stream(OPEN),
        {**whole(SAID), "body": 5},
        {**whole(SAID), "body": "cache_miss_reason"},
        {},
    ],
    ids=lambda wire: str(wire)[:60],
)
def test_no_reason_is_none(wire: dict[str, Any]) -> None:
    assert cache_miss_reason(wire) is None
