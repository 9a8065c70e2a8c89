"""Clients of the SDK of MCP within a process: recorded with a real server, replayed without."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import mcp_types as types
import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from cortex_replay import Run, Store, intercept
from cortex_replay.errors import InvalidRequest
from cortex_replay.interception import Interception
from cortex_replay.interception.mcp.servers import McpServers
from cortex_replay.interception.transports import for_mcp, install
from cortex_replay.mcp.messages import NO_FIXTURE
from cortex_replay.providers import DUMMY_KEY
from tests.adapters.fake_provider import FakeProvider
from tests.interception.mcp.http_server import serve_tools

SERVER = Path(__file__).with_name("tools_server.py")
Use = Callable[[ClientSession], Awaitable[Any]]


def tools(folder: Path, name: str = "heard") -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[str(SERVER), str(folder / name)])


def starts(folder: Path, name: str = "heard") -> int:
    """How often the server was started."""
    file = folder / name
    return file.read_text().count("started\n") if file.exists() else 0


def asked(root: Path) -> list[tuple[str, str]]:
    """What is recorded: who was asked, and for what."""
    files = [json.loads(file.read_bytes()) for file in root.rglob("*.json")]
    requests = [one["request"] for one in files if "upstream" in one.get("request", {})]
    return sorted((one["upstream"], one["path"]) for one in requests)


async def talk(transport: Any, use: Use, **options: Any) -> Any:
    """What a client does in a session. Its groups of errors are taken apart."""
    try:
        async with transport as streams, ClientSession(*streams[:2], **options) as session:
            await session.initialize()
            return await use(session)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def count(session: ClientSession) -> list[str]:
    return [await call(session, "count") for _ in range(3)]


async def call(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "llm"


def test_a_session_is_replayed_without_its_server(tmp_path: Path, store: Path) -> None:
    """Also if the test has imported and called what opens it long before."""
    early = stdio_client(tools(tmp_path))
    with intercept(store, "once"):
        recorded = asyncio.run(talk(early, count))
    late = stdio_client(tools(tmp_path))
    with intercept(store, "replay") as interception:
        replayed = asyncio.run(talk(late, count))

    assert recorded == replayed == ["1", "2", "3"]
    assert starts(tmp_path) == 1
    assert interception.mcp is not None
    assert interception.mcp.sessions == 1
    assert asked(store) == [
        ("mcp:tools_server", method) for method in ("initialize", "tools/call", "tools/list")
    ]


def test_nothing_is_replaced_behind_the_block(tmp_path: Path, store: Path) -> None:
    with intercept(store, "once"):
        pass

    assert asyncio.run(talk(stdio_client(tools(tmp_path)), count)) == ["1", "2", "3"]
    assert asked(store) == []


def test_a_high_level_client_is_replayed(tmp_path: Path, store: Path) -> None:
    """It asks what the server can do before it shakes hands."""

    async def use() -> str | None:
        async with Client(tools(tmp_path)) as client:
            result = await client.call_tool("echo", {"a": [1, None, {"b": "ä"}]})
            assert isinstance(result.content[0], types.TextContent)
            return result.content[0].text

    with intercept(store, "record"):
        recorded = asyncio.run(use())
    with intercept(store, "replay"):
        assert asyncio.run(use()) == recorded == json.dumps({"a": [1, None, {"b": "ä"}]})

    assert starts(tmp_path) == 1


def test_a_miss_is_an_error_that_explains_itself(tmp_path: Path, store: Path) -> None:
    with intercept(store, "once"):
        asyncio.run(talk(stdio_client(tools(tmp_path)), lambda session: call(session, "echo", a=1)))
    with intercept(store, "replay"), pytest.raises(MCPError, match="nothing is recorded for") as caught:
        asyncio.run(talk(stdio_client(tools(tmp_path)), lambda session: call(session, "echo", a=2)))

    assert caught.value.code == NO_FIXTURE
    assert "use the mode once" in str(caught.value)
    assert starts(tmp_path) == 1


def test_what_a_failed_block_recorded_is_dropped(tmp_path: Path, store: Path) -> None:
    async def fail(session: ClientSession) -> None:
        await call(session, "count")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), intercept(store, "once"):
        asyncio.run(talk(stdio_client(tools(tmp_path)), fail))

    assert asked(store) == []


def test_servers_of_one_name_are_told_apart(tmp_path: Path, store: Path) -> None:
    """By the order in which a test opens them, wherever it runs."""

    async def use(first: str, second: str) -> list[str]:
        one = stdio_client(tools(tmp_path, first))
        other = stdio_client(tools(tmp_path, second))
        return [*await talk(one, count), *await talk(other, count), *await talk(one_more(first), count)]

    def one_more(name: str) -> Any:
        return stdio_client(tools(tmp_path, name))

    with intercept(store, "once"):
        asyncio.run(use("a", "b"))
    with intercept(store, "replay"):
        assert asyncio.run(use("c", "d")) == ["1", "2", "3"] * 3

    assert {server for server, _ in asked(store)} == {"mcp:tools_server", "mcp:tools_server-2"}
    assert (starts(tmp_path, "a"), starts(tmp_path, "c")) == (2, 0)


@pytest.mark.parametrize(
    ("choice", "servers"),
    [
        (True, {"mcp:tools_server"}),
        (False, set()),
        ({"tools_*": "files"}, {"mcp:files"}),
        ({"*python*heard": "files"}, {"mcp:files"}),
        ({"other": "files"}, {"mcp:tools_server"}),
        ({"tools_server": False}, set()),
    ],
)
def test_servers_are_named_or_left_alone(tmp_path: Path, store: Path, choice: Any, servers: set[str]) -> None:
    with intercept(store, "once", mcp=choice):
        asyncio.run(talk(stdio_client(tools(tmp_path)), count))

    assert {server for server, _ in asked(store)} == servers
    assert starts(tmp_path) == 1


def test_a_choice_that_makes_no_sense_is_refused(store: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"mcp.*patterns and names"), intercept(store, "once", mcp="x"):  # type: ignore[arg-type]
        pass


def test_a_server_that_dies_or_is_not_there_is_an_error(tmp_path: Path, store: Path) -> None:
    nowhere = StdioServerParameters(command="no-such-program")
    with intercept(store, "once"):
        with pytest.raises(MCPError, match="the server has ended"):
            asyncio.run(talk(stdio_client(tools(tmp_path)), lambda session: call(session, "die")))
        with pytest.raises(MCPError, match="No such file or directory: no-such-program"):
            asyncio.run(talk(stdio_client(nowhere), count))


def test_a_server_behind_the_shim_is_recorded_once(tmp_path: Path, store: Path) -> None:
    """Under the name that the shim gives it, and by us alone."""
    own = tools(tmp_path)
    shim = StdioServerParameters(command="cortex-replay", args=["mcp", "files", "--", own.command, *own.args])
    with intercept(store, "once"):
        asyncio.run(talk(stdio_client(shim), count))
    with intercept(store, "replay"):
        assert asyncio.run(talk(stdio_client(server=shim), count)) == ["1", "2", "3"]

    assert {server for server, _ in asked(store)} == {"mcp:files"}
    assert starts(tmp_path) == 1


def test_a_server_gets_no_dummy_for_a_key(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started to be asked, and would be refused with one."""
    monkeypatch.setenv("OPENAI_API_KEY", DUMMY_KEY)
    monkeypatch.setenv("OWN_SETTING", "kept")
    show = "import os, sys; print(*sorted(os.environ), file=open(sys.argv[1], 'w'))"
    server = StdioServerParameters(
        command=sys.executable, args=["-c", show, str(tmp_path / "names")], env=dict(os.environ)
    )
    with intercept(store, "once"), pytest.raises(MCPError):
        asyncio.run(talk(stdio_client(server), count))

    names = (tmp_path / "names").read_text().split()
    assert "OWN_SETTING" in names
    assert "OPENAI_API_KEY" not in names


def test_where_another_process_records_the_shim_is_started(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads to that process; here nothing is recorded."""
    shims: list[tuple[str, list[str]]] = []

    def shim_command(name: str, command: list[str]) -> list[str]:
        shims.append((name, command))
        return command

    monkeypatch.setattr(for_mcp, "shim_command", shim_command)
    run = Run.open(mode="live", store=Store.create(store))
    scope = run.open_scope()
    servers = McpServers(run, scope, is_relayed=True)
    with install(Interception(run.engine(), scope, mcp=servers)):
        assert asyncio.run(talk(stdio_client(tools(tmp_path)), count)) == ["1", "2", "3"]

    assert shims == [("tools_server", [sys.executable, str(SERVER), str(tmp_path / "heard")])]
    assert servers.sessions == 0


def test_http_is_recorded_as_mcp_alone(store: Path) -> None:
    """Also in a test all of whose HTTP is recorded; and in replay nobody has to be there."""
    with serve_tools() as server:
        with intercept(store, "once", http="all"):
            recorded = asyncio.run(talk(streamable_http_client(server.url), count))
        heard = list(server.heard)
    with intercept(store, "replay", http="all"):
        replayed = asyncio.run(talk(streamable_http_client(server.url), count))

    assert recorded == replayed
    assert sorted(set(heard)) == [
        "DELETE",
        "initialize",
        "notifications/initialized",
        "tools/call",
        "tools/list",
    ]
    assert asked(store) == [
        ("mcp:localhost", method) for method in ("initialize", "tools/call", "tools/list")
    ]


def test_requests_that_stand_alone_reach_a_server_with_their_headers(store: Path) -> None:
    """The SDK gives its transport more than a frame."""

    async def use(url: str) -> None:
        async with Client(url, mode="2026-07-28") as client:
            assert not (await client.call_tool("echo", {"a": 1})).is_error

    with serve_tools() as server:
        asyncio.run(use(server.url))
        alone = server.headers[:]
        with intercept(store, "once"):
            asyncio.run(use(server.url))
        recorded = server.headers[len(alone) :]
    with intercept(store, "replay"):
        asyncio.run(use(server.url))

    assert [headers["mcp-method"] for headers in recorded if "mcp-method" in headers]
    assert [sorted(headers) for headers in recorded] == [sorted(headers) for headers in alone]


def test_replay_opens_no_connection(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_tools() as server, intercept(store, "once"):
        asyncio.run(talk(streamable_http_client(server.url), count))

    async def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError(arguments)

    for name in ("create_connection", "getaddrinfo", "subprocess_exec", "sock_connect"):
        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, name, refuse, raising=False)
    with intercept(store, "replay"):
        asyncio.run(
            talk(streamable_http_client("http://127.0.0.1:1/mcp"), lambda session: call(session, "count"))
        )
        with pytest.raises(MCPError, match="nothing is recorded"):
            asyncio.run(talk(sse_client("http://mcp.example.com/sse"), count))


def test_an_application_under_test_is_left_alone(store: Path) -> None:
    with serve_tools() as server, intercept(store, "once", allow_hosts=["127.0.0.1"]):
        asyncio.run(talk(streamable_http_client(server.url), count))

    assert asked(store) == []


def test_a_server_in_memory_is_left_alone(store: Path) -> None:
    """Whoever has the server at hand tests that server."""
    app = MCPServer("own")
    app.add_tool(lambda: 5, "five")

    async def use() -> None:
        async with Client(app) as client:
            assert not (await client.call_tool("five", {})).is_error

    with intercept(store, "once"):
        asyncio.run(use())

    assert asked(store) == []


def test_a_sampling_request_is_a_model_call_of_the_same_test(
    tmp_path: Path, store: Path, provider: FakeProvider
) -> None:
    async def sample(_: object, request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = request.messages[0].content
        assert isinstance(content, types.TextContent)
        asked = {"model": "m", "messages": [{"role": "user", "content": content.text}]}
        async with httpx.AsyncClient(headers={"authorization": "Bearer sk-x"}) as client:
            reply = await client.post(f"{provider.url}/v1/chat/completions", json=asked)
        said = types.TextContent(type="text", text=reply.json()["choices"][0]["message"]["content"])
        return types.CreateMessageResult(role="assistant", model="m", content=said)

    async def use(session: ClientSession) -> str:
        return await call(session, "ask", text="hello")

    answers = []
    for mode in ("once", "replay"):
        with intercept(store, mode) as interception:
            transport = stdio_client(tools(tmp_path))
            answers.append(asyncio.run(talk(transport, use, sampling_callback=sample)))
        assert interception.calls == 1

    assert answers[0] == answers[1]
    assert starts(tmp_path) == 1
    assert len(provider.received) == 1
    assert [path.parent.name for path in store.rglob("fixtures/m/*.json")] == ["m"]


def test_another_loop_is_refused_with_advice(tmp_path: Path, store: Path) -> None:
    """Without asyncio nothing could be recorded, and a server would be started."""
    with intercept(store, "once"), pytest.raises(InvalidRequest, match=r"on asyncio only.*mcp=False"):
        stdio_client(tools(tmp_path)).__aenter__().send(None)
