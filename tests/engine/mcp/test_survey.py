"""A client that asks a server for its lists alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_replay.engine.mcp import survey as survey_module
from cortex_replay.engine.mcp.link import Said as ServerSaid
from cortex_replay.engine.mcp.survey import Survey, survey
from cortex_replay.errors import Transport
from tests.engine.mcp.harness import FakeServer

HELLO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "3"}}
Said = list[dict[str, Any]]


def ask(reply: Any, **options: Any) -> tuple[Survey, FakeServer]:
    server = FakeServer(reply)
    found = asyncio.run(_ask(server, **options))
    return found, server


async def _ask(server: FakeServer, **options: Any) -> Survey:
    return await asyncio.wait_for(survey(server, ["tools/list", "prompts/list"], **options), 10)


def test_lists_that_a_server_does_not_have_are_empty() -> None:
    def reply(message: dict[str, Any]) -> Said:
        result: Any = {"initialize": HELLO, "tools/list": {"tools": [{"name": "a"}]}}.get(message["method"])
        return [{"id": message["id"], "result": result}] if result else []

    found, server = ask(reply, handshake={"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}})

    assert [(page.method, page.result) for page in found.pages] == [
        ("tools/list", {"tools": [{"name": "a"}]}),
        ("prompts/list", {"prompts": []}),
    ]
    assert found.server == "fake 3"
    hello = server.heard[0]["params"]
    assert (hello["protocolVersion"], hello["capabilities"]) == ("2025-06-18", {"roots": {}})
    assert [message["method"] for message in server.heard] == [
        *("initialize", "notifications/initialized", "tools/list")
    ]


def test_the_era_without_handshakes() -> None:
    def reply(message: dict[str, Any]) -> Said:
        assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        result: Any = (
            {"capabilities": {"tools": {}}} if message["method"] == "server/discover" else {"tools": []}
        )
        return [{"id": message["id"], "result": result}]

    _, server = ask(reply, is_modern=True)

    assert [message["method"] for message in server.heard] == ["server/discover", "tools/list"]


def test_a_server_of_the_other_era_is_greeted() -> None:
    def reply(message: dict[str, Any]) -> Said:
        if message["method"] == "server/discover":
            return [{"id": message["id"], "error": {"code": -32601, "message": "?"}}]
        assert "_meta" not in message.get("params", {})
        result: Any = HELLO if message["method"] == "initialize" else {"tools": []}
        return [{"id": message["id"], "result": result}] if "id" in message else []

    assert ask(reply, is_modern=True)[0].server == "fake 3"


def test_a_list_that_changes_meanwhile_is_asked_for_again() -> None:
    lists = [{"tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]}]

    def reply(message: dict[str, Any]) -> Said:
        if "id" not in message:
            return []
        if message["method"] == "initialize":
            return [{"id": message["id"], "result": HELLO}]
        changed = [{"method": "notifications/tools/list_changed"}] if len(lists) == 2 else []
        return [*changed, {"id": message["id"], "result": lists.pop(0)}]

    assert ask(reply)[0].pages[0].result == {"tools": [{"name": "b"}]}


def hello_then(*said: dict[str, Any]) -> Any:
    def reply(message: dict[str, Any]) -> Said:
        if "id" not in message:
            return []
        given = [{"result": HELLO}] if message["method"] == "initialize" else said
        return [{"id": message["id"], **one} for one in given]

    return reply


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (hello_then({"result": {"nextCursor": "1"}}), "the same page of tools/list again and again"),
        (hello_then({"result": 3}), "gives no tools/list: its answer is none"),
        (hello_then({"error": {"code": -1, "message": "no"}}), r"gives no tools/list: no \(-1\)"),
        (lambda _: [{"id": 1, "result": {}}], "refuses the handshake"),
        (hello_then({"result": {"tools": ["x" * 2000]}}), "says more than"),
    ],
)
def test_servers_that_misbehave(reply: Any, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "_MOST_BYTES", 1500)

    with pytest.raises(Transport, match=problem):
        ask(reply)


def test_what_a_server_asks_is_answered_and_what_it_prints_is_passed_over() -> None:
    questions: Said = [{"id": "a", "method": "ping"}, {"id": "b", "method": "roots/list"}]
    questions += [{"id": "c", "method": "sampling/createMessage", "params": {}}]

    def reply(message: dict[str, Any]) -> Said:
        if message.get("method") == "tools/list":
            server.say_bytes(b"Listening on port 8080\n")
            server.say({"method": "notifications/message", "params": {}})
            server.say({"id": 99, "result": {"tools": ["of nobody's question"]}})
            return [*questions, {"id": message["id"], "result": {"tools": []}}]
        return [{"id": message["id"], "result": HELLO}] if message.get("method") == "initialize" else []

    server = FakeServer(reply)
    found = asyncio.run(_ask(server))

    assert found.pages[0].result == {"tools": []}
    answers = {message["id"]: message for message in server.heard if "method" not in message}
    assert (answers["a"]["result"], answers["b"]["result"]) == ({}, {"roots": []})
    assert answers["c"]["error"]["code"] == -32601


def test_a_list_that_never_rests_is_taken_as_it_was_last() -> None:
    counts = iter(range(100))

    def reply(message: dict[str, Any]) -> Said:
        if message.get("method") != "tools/list":
            return hello_then()(message)  # type: ignore[no-any-return]
        result = {"tools": [{"name": f"{next(counts)}"}]}
        return [{"method": "notifications/tools/list_changed"}, {"id": message["id"], "result": result}]

    assert ask(reply)[0].pages[0].result == {"tools": [{"name": "2"}]}


def test_pages_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "_MOST_PAGES", 3)
    cursors = iter("abcdef")

    def reply(message: dict[str, Any]) -> Said:
        if message.get("method") != "tools/list":
            return hello_then()(message)  # type: ignore[no-any-return]
        return [{"id": message["id"], "result": {"tools": [], "nextCursor": next(cursors)}}]

    with pytest.raises(Transport, match="more than 3 pages of tools/list"):
        ask(reply)


@pytest.mark.parametrize("how", ["it ends", "it breaks", "its transport fails"])
def test_a_server_that_ends_is_an_error_at_once(how: str) -> None:
    def reply(message: dict[str, Any]) -> Said:
        if how == "its transport fails":
            server._said.put_nowait(ServerSaid(b"", 1, problem="the server says 500"))
        else:
            server.die("" if how == "it ends" else "the pipe broke")
        return []

    server = FakeServer(reply)
    words = {"it ends": "has ended before it answered", "it breaks": "the pipe broke"}
    with pytest.raises(Transport, match=words.get(how, "the server says 500")):
        asyncio.run(_ask(server))
    assert server.is_closed
