"""Sessions, and requests that stand alone."""

from __future__ import annotations

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.questions import question_of

_ALONE: dict[str, JsonValue] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
_LATER: dict[str, JsonValue] = {"io.modelcontextprotocol/protocolVersion": "2027-01-01", "progressToken": 1}


def test_a_request_that_stands_alone_is_another_question() -> None:
    """Its answer says what no answer in a session says, and its client insists on that."""
    in_session = question_of("tools", "tools/call", {"name": "now", "_meta": {"progressToken": 1}})
    alone = question_of("tools", "tools/call", {"name": "now", "_meta": {**_ALONE}})

    assert in_session == question_of("tools", "tools/call", {"name": "now"})
    assert alone != in_session
    assert alone == question_of("tools", "tools/call", {"name": "now", "_meta": {**_LATER}})
