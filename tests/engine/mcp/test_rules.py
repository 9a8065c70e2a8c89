"""Calls that are refused, go wrong on demand, or go to the real server in every mode."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.config import McpSettings
from cortex_replay.engine.mcp.rules import CallRules
from cortex_replay.faults import Fault, Faults
from cortex_replay.faults.tools import strike_by
from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, run_at


def file_server() -> FakeServer:
    """Says which tool was called, and for the how many-th time."""
    counted = 0

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        nonlocal counted
        if "id" not in message:
            return []
        counted += message["method"] == "tools/call"
        said = f"{message.get('params', {}).get('name', message['method'])} {counted}"
        return [{"id": message["id"], "result": {"content": [{"type": "text", "text": said}]}}]

    return FakeServer(reply)


class Play:
    """A client in one mode, with rules."""

    def __init__(self, root: Path, mode: Mode, rules: McpSettings | None = None, *faults: str) -> None:
        self.run = run_at(root, mode)
        self.run.call_rules = CallRules({"tools": rules} if rules else {})
        self.faults = Faults(map(Fault.parse, faults))
        self.run.call_rules.add_faults(strike_by(self.faults))
        self.server = file_server()
        self.client = Client(self.run, self.server)

    async def begin(self) -> None:
        await self.client.ask("initialize", {"protocolVersion": "2025-11-25"}, id=900)
        await self.client.say("notifications/initialized")

    async def call(self, tool: str, number: int) -> str:
        """The text that a tool answers with."""
        answer = await self.client.ask("tools/call", {"name": tool, "arguments": {}}, id=number)
        text: str = answer["result"]["content"][0]["text"]
        return text

    async def end(self) -> None:
        await self.client.session.close()
        if self.run.mode.writes:
            self.run.commit()

    def methods(self) -> list[str]:
        """What the server was asked."""
        return [message.get("params", {}).get("name", message["method"]) for message in self.server.heard]


def play(
    root: Path,
    mode: Mode,
    act: Callable[[Play], Awaitable[None]],
    rules: McpSettings | None = None,
    *faults: str,
) -> Play:
    async def whole() -> Play:
        one = Play(root, mode, rules, *faults)
        await one.begin()
        await act(one)
        await one.end()
        return one

    return asyncio.run(whole())


READ_LIVE = McpSettings(tools={"read": "live", "write": "refuse"})


def test_a_live_tool_is_asked_in_every_mode_and_never_recorded(tmp_path: Path) -> None:
    said: list[str] = []

    async def read_and_list(one: Play) -> None:
        said.append(await one.call("read", 1))
        said.append(await one.call("list", 2))
        said.append(await one.call("read", 3))

    recorded = play(tmp_path, Mode.RECORD, read_and_list, READ_LIVE)
    replayed = play(tmp_path, Mode.REPLAY, read_and_list, READ_LIVE)

    assert said == ["read 1", "list 2", "read 3", "read 1", "list 2", "read 2"]
    assert replayed.methods() == ["initialize", "notifications/initialized", "ping", "read", "read"]
    assert (recorded.run.ledger.recorded, recorded.run.ledger.live) == (2, 4)
    assert (replayed.run.ledger.hits, replayed.run.ledger.live) == (2, 2)
    assert replayed.run.ledger.misses == []


def test_without_a_live_call_replay_starts_no_server(tmp_path: Path) -> None:
    async def list_all(one: Play) -> None:
        await one.call("list", 2)

    play(tmp_path, Mode.RECORD, list_all, READ_LIVE)

    assert play(tmp_path, Mode.REPLAY, list_all, READ_LIVE).client.connections == 0


@pytest.mark.parametrize("mode", list(Mode))
def test_a_refused_tool_never_reaches_the_server(tmp_path: Path, mode: Mode) -> None:
    async def begin_and_list(one: Play) -> None:
        await one.call("list", 1)

    async def write_and_list(one: Play) -> None:
        answer = await one.client.ask("tools/call", {"name": "write", "arguments": {}}, id=5)
        assert answer["result"]["isError"] is True
        assert "the settings refuse the tool 'write' of the server 'tools'" in str(answer["result"])
        await one.call("list", 6)
        await one.call("read", 7)

    play(tmp_path, Mode.RECORD, begin_and_list)
    asked = play(tmp_path, mode, write_and_list, READ_LIVE)

    assert "write" not in asked.methods()
    assert asked.methods()[-1] == "read"
    assert asked.run.ledger.declined == 1


def test_a_refused_server_cannot_even_be_greeted(tmp_path: Path) -> None:
    async def whole() -> None:
        one = Play(tmp_path, Mode.RECORD, McpSettings(policy="refuse"))
        answer = await one.client.ask("initialize", {"protocolVersion": "2025-11-25"}, id=1)
        await one.client.say("notifications/initialized")
        await one.end()

        assert answer["error"]["data"] == {"type": "refused"}
        assert one.client.connections == 0
        assert one.client.got == [answer]

    asyncio.run(whole())


def test_a_live_server_is_asked_everything(tmp_path: Path) -> None:
    async def list_all(one: Play) -> None:
        await one.call("list", 1)

    replayed = play(tmp_path, Mode.REPLAY, list_all, McpSettings(policy="live"))

    assert replayed.methods() == ["initialize", "notifications/initialized", "list"]
    assert replayed.run.ledger.live == 2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("tool-error@2", {"result": {"content": [{"type": "text", "text": "The tool failed (on demand)"}]}}),
        ("tool-fail@2", {"error": {"code": -32603, "message": "Internal error (on demand)"}}),
        ("tool-shape@2", {"result": {"content": 0}}),
    ],
)
def test_a_call_goes_wrong_and_its_recording_goes_on(tmp_path: Path, fault: str, expected: Any) -> None:
    said: list[Any] = []

    async def poll(one: Play) -> None:
        said[:] = [
            await one.client.ask("tools/call", {"name": "poll", "arguments": {}}, id=number)
            for number in (1, 2, 3)
        ]

    play(tmp_path, Mode.RECORD, poll)
    texts = [one["result"]["content"][0]["text"] for one in said]
    replayed = play(tmp_path, Mode.REPLAY, poll, None, fault)

    assert texts == ["poll 1", "poll 2", "poll 3"]
    assert said[0]["result"]["content"][0]["text"] == "poll 1"
    for name, value in expected.items():
        assert said[1][name] == (value | {"isError": True} if fault == "tool-error@2" else value)
    assert said[2]["result"]["content"][0]["text"] == "poll 2", (
        "a call that failed has not used up its answer"
    )
    assert replayed.faults.struck == {fault: 1}


def test_nothing_of_a_fault_is_recorded(tmp_path: Path) -> None:
    async def poll(one: Play) -> None:
        for number in (1, 2):
            await one.client.ask("tools/call", {"name": "poll", "arguments": {}}, id=number)

    recorded = play(tmp_path, Mode.RECORD, poll, None, "tool-error@1")

    assert recorded.methods()[2:] == ["poll"]
    assert recorded.run.ledger.recorded == 2  # initialize, and the second call


def frames_of(root: Path, fault: str) -> list[Any]:
    """What a client gets for one call, until it gives up."""
    sent: list[Any] = []

    async def whole() -> None:
        one = Play(root, Mode.LIVE, None, fault)

        async def take(out: Any) -> None:
            sent.append(out)

        one.client.session._client.send = take
        await one.client.say("tools/call", {"name": "read", "arguments": {}}, 7)
        await one.client.say("notifications/cancelled", {"requestId": 7})
        await one.end()
        assert one.server.heard == []

    asyncio.run(whole())
    return sent


def test_a_tool_that_hangs_says_nothing_until_the_client_gives_up(tmp_path: Path) -> None:
    assert frames_of(tmp_path, "tool-hang") == []


def test_rubbish_is_no_json(tmp_path: Path) -> None:
    [sent] = frames_of(tmp_path, "tool-not-json")

    assert sent.frame.startswith(b'{"jsonrpc":"2.0","id":7,')
    assert not sent.frame.endswith(b"}")
    assert (sent.about, sent.is_end, sent.closes) == (7, True, False)


def test_a_server_that_dies_ends_the_connection(tmp_path: Path) -> None:
    [sent] = frames_of(tmp_path, "tool-death")

    assert not sent.frame.endswith(b"}")
    assert sent.closes


def test_scopes_have_faults_of_their_own() -> None:
    rules = CallRules()
    rules.add_faults(strike_by(Faults([Fault.parse("tool-fail@always")])))
    rules.set_faults("mine", strike_by(Faults()))
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}

    assert rules.decide("mine", "tools", message) == "replay"
    assert rules.decide("", "tools", message) != "replay"
    rules.set_faults("mine", None)
    assert rules.decide("mine", "tools", message) != "replay"
    assert rules.called == [("tools", "read")] * 3
