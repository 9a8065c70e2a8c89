"""A script that is taken down can be played."""

from __future__ import annotations

from typing import Any

from cortex_replay.mcp.script_form import problem_of_script
from cortex_replay.mcp.scripts import Script


def test_requests_are_counted_whatever_ids_a_server_gives_them() -> None:
    script = Script()
    for found in ("q", "q", "r"):
        script.ask({"jsonrpc": "2.0", "id": found, "method": "roots/list"}, 1)
    for found in ("q", "r"):
        script.answer({"jsonrpc": "2.0", "id": found, "result": {}}, 1)
    script.end({"jsonrpc": "2.0", "id": 1, "result": {}}, 1)

    messages: Any = script.wire()["messages"]
    answers = [entry["answer"] for entry in messages if "answer" in entry]
    assert answers == [{"to": 2, "result": {}}, {"to": 3, "result": {}}]
    assert problem_of_script(script.wire(), "tools/call") is None


def test_parameters_that_are_no_object_stay_as_they_are() -> None:
    script = Script()
    script.notify({"jsonrpc": "2.0", "method": "x", "params": [1, 2]}, 1)

    messages: Any = script.wire()["messages"]
    assert [entry["notification"] for entry in messages] == [{"method": "x", "params": [1, 2]}]
