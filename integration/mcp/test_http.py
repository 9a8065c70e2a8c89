"""MCP over HTTP with real servers and the SDKs' clients: recorded by the gateway, replayed without them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from cortex_replay.mcp.messages import NO_FIXTURE
from integration import install
from integration.mcp.http_tee import teeing
from integration.mcp.reference_servers import entry_of, reference_servers
from tests.waiting import wait_until

CLIENTS: Final = Path(__file__).parent / "clients"
PROGRAM: Final = (sys.executable, "-m", "cortex_replay")
_PATHS: Final = {"streamableHttp": "/mcp", "sse": "/sse"}
_REPLAYS: Final = 20
_CANCELLED: Final = -32800
_CLIENT_VERSION: Final = "2.4.0"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def process(command: Sequence[str], port: int, **environment: str) -> Iterator[None]:
    """A server, from when it listens until it is ended."""
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            wait_until(lambda: running.poll() is not None or _listens(port))
            assert running.poll() is None, f"{command} has ended"
            yield
        finally:
            running.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextlib.contextmanager
def everything(transport: str) -> Iterator[str]:
    """The URL of server-everything."""
    node, port = install.needed("node", "run server-everything"), free_port()
    command = [node, os.fspath(entry_of(reference_servers(), "everything")), transport]
    with process(command, port, PORT=str(port)):
        yield f"http://127.0.0.1:{port}{_PATHS[transport]}"


@contextlib.contextmanager
def gateway(mode: str, store: Path, upstream: str = "") -> Iterator[str]:
    """The URL at which a client finds the server, in a gateway of its own."""
    upstreams = ["--upstream", f"mcp:every={upstream}"] if upstream else []
    command = [*PROGRAM, "serve", "--mode", mode, "--store", os.fspath(store), *upstreams]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        try:
            yield f"{running.stdout.readline().strip()}/mcp/every"
        finally:
            running.send_signal(signal.SIGINT)
            assert running.wait(30) == 0


def python_client(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", os.fspath(CLIENTS / "everything.py"), *arguments]


def typescript_client(*arguments: str) -> list[str]:
    return [install.needed("node", "run a client"), os.fspath(CLIENTS / "everything.cjs"), *arguments]


def run(command: Sequence[str]) -> list[dict[str, Any]]:
    """The lines that a client prints."""
    done = subprocess.run(
        command,
        env=os.environ | {"MCP_MODULES": os.fspath(reference_servers())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert "done" in lines[-1]
    return lines


def frames(lines: list[dict[str, Any]]) -> Counter[str]:
    """The messages that a client got. Which of two connections it reads first is up to the client; a replay
    numbers the requests of a server in its own way; and over HTTP a call that was given up gets an end."""
    found: Counter[str] = Counter()
    for line in lines:
        message = line.get("got")
        if message is not None and message.get("error", {}).get("code") != _CANCELLED:
            is_servers = "method" in message and "id" in message
            found[json.dumps({**message, **({"id": "its own"} if is_servers else {})}, sort_keys=True)] += 1
    return found


def stories(lines: list[dict[str, Any]]) -> dict[Any, list[str]]:
    """The messages that belong to a call, in order: its progress and its end."""
    found: dict[Any, list[str]] = {}
    for line in lines:
        message = line.get("got", {})
        about = message.get("id", message.get("params", {}).get("progressToken"))
        if about is not None and ("method" not in message or "progressToken" in message.get("params", {})):
            found.setdefault(about, []).append(json.dumps(message, sort_keys=True))
    return found


def misses(lines: list[dict[str, Any]]) -> list[Any]:
    return [line for line in lines if line.get("got", {}).get("error", {}).get("code") == NO_FIXTURE]


@pytest.mark.parametrize("transport", _PATHS)
@pytest.mark.parametrize(
    ("client", "replays"),
    [(python_client, _REPLAYS), (typescript_client, 5)],
    ids=["the Python SDK", "the TypeScript SDK"],
)
def test_all_of_server_everything_replays_without_it(
    tmp_path: Path, transport: str, client: Callable[..., list[str]], replays: int
) -> None:
    """Every tool, resource and prompt, again and again: the same bytes to each request, event by event, and
    the frames of a call in order."""
    kind, part = ("sse", "/sse") if transport == "sse" else ("http", "")
    with everything(transport) as server, gateway("record", tmp_path, server) as url:
        recorded = run(client(kind, url + part))
    told, sent = [], []
    for _ in range(replays):
        with teeing() as tee, gateway("replay", tmp_path) as url:
            told.append(run(client(kind, tee.lead_to(url) + part)))
        sent.append(tee.answers)

    assert misses(told[0]) == []
    assert frames(told[0]) == frames(recorded)
    assert b"".join(one.answer for one in sent[0]).count(b'"jsonrpc"') >= len(frames(told[0]))
    for other, answers in zip(told[1:], sent[1:], strict=True):
        assert answers == sent[0]
        assert stories(other) == stories(told[0])


def _replay(store: Path, client: Callable[..., list[str]], kind: str, part: str = "") -> list[dict[str, Any]]:
    with gateway("replay", store) as url:
        return run(client(kind, url + part))


def test_one_recording_serves_all_transports(tmp_path: Path) -> None:
    """Recorded over stdio and over HTTP, each replayed over the other and over the older one."""
    node = install.needed("node", "run server-everything")
    server = [node, os.fspath(entry_of(reference_servers(), "everything")), "stdio"]
    over_stdio, over_http = tmp_path / "stdio", tmp_path / "http"

    def shim(mode: str, store: Path, *command: str) -> list[str]:
        options = ["--mode", mode, "--store", os.fspath(store)]
        return python_client("stdio", *PROGRAM, "mcp", *options, "every", "--", *command)

    recorded = run(shim("record", over_stdio, *server))
    with everything("streamableHttp") as upstream, gateway("record", over_http, upstream) as url:
        also = run(python_client("http", url))
    gone = "/nowhere/server"

    assert frames(_replay(over_stdio, python_client, "http")) == frames(recorded)
    assert frames(_replay(over_stdio, python_client, "sse", "/sse")) == frames(recorded)
    assert frames(run(shim("replay", over_http, gone))) == frames(also)
    assert frames(_replay(over_http, python_client, "sse", "/sse")) == frames(also)


class Cutter:
    """Stands before a server, and cuts the first connection on which something was said, just behind it."""

    def __init__(self, server: str, said: bytes) -> None:
        self._server = urlsplit(server)
        self._said = said
        self.own = ""
        self.cuts = 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._server.hostname, self._server.port)

        async def ask() -> None:
            while data := await reader.read(65536):
                self.heads += [
                    line for line in data.split(b"\r\n") if line.lower().startswith(b"last-event-id")
                ]
                back.write(data.replace(self.own.encode(), self._server.netloc.encode()))  # its name
            back.close()

        async def answer() -> None:
            passed = b""
            while data := await there.read(65536):
                passed += data
                found = passed.find(self._said) if not self.cuts else -1
                end = passed.find(b"\n\n", found)
                if found >= 0 and end >= 0:
                    self.cuts += 1
                    writer.write(data[: len(data) - (len(passed) - end - 2)])
                    await writer.drain()
                    break
                writer.write(data)
            writer.close()
            back.close()

        with contextlib.suppress(OSError):
            await asyncio.gather(ask(), answer())


@contextlib.contextmanager
def cutting(server: str, said: bytes) -> Iterator[tuple[str, Cutter]]:
    """The URL of a server behind a cutter."""
    cutter, ready = Cutter(server, said), threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(cutter.serve, "127.0.0.1", 0) as listening:
            cutter.own = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            stop.append(lambda: loop.call_soon_threadsafe(end.set))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield urlsplit(server)._replace(netloc=cutter.own).geturl(), cutter
    finally:
        stop[0]()
        thread.join()


_COUNTING: Final = """
import sys, anyio
from mcp import Client

async def main():
    async def progress(done, total, message):
        print("progress", done, total)
    async with Client(sys.argv[1]) as client:
        arguments = {"duration": 0.5, "steps": 5}
        print(await client.call_tool("trigger-long-running-operation", arguments, progress_callback=progress))
        print(await client.call_tool("echo", {"message": "still here"}))

anyio.run(main)
"""


def count(url: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", _COUNTING, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_connection_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    """Between the gateway and the server, between the client and the gateway, and on replay."""
    progress = b'"progress":2'
    with everything("streamableHttp") as server:
        plain = count(server)
        with cutting(server, progress) as (cut, cutter), gateway("record", tmp_path / "a", cut) as url:
            assert count(url) == plain
        assert (cutter.cuts, len(cutter.heads)) == (1, 1)
        with gateway("record", tmp_path / "b", server) as url, cutting(url, progress) as (cut, cutter):
            assert count(cut) == plain
        assert (cutter.cuts, len(cutter.heads)) == (1, 1)
    for store in ("a", "b"):
        with gateway("replay", tmp_path / store) as url, cutting(url, progress) as (cut, cutter):
            assert count(cut) == plain
        assert (cutter.cuts, len(cutter.heads)) == (1, 1)


def modern_python() -> list[str]:
    return [sys.executable, "-W", "ignore", os.fspath(CLIENTS / "modern_http.py")]


def modern_typescript() -> list[str]:
    node = install.needed("node", "run a client")
    folder = install.once(install.BENCH / "mcp" / f"client@{_CLIENT_VERSION}", _install_client)
    return ["env", f"MCP_MODULES={folder}", node, os.fspath(CLIENTS / "modern.cjs")]


def _install_client(folder: Path) -> None:
    (folder / "package.json").write_text("{}")  # else npm looks for one above
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
    package = f"@modelcontextprotocol/client@{_CLIENT_VERSION}"
    install.completed(
        [install.needed("npm", "install a client"), "install", "--prefix", folder, *options, package]
    )


@pytest.mark.parametrize(
    "client", [modern_python, modern_typescript], ids=["the Python SDK", "the TypeScript SDK"]
)
def test_requests_that_stand_alone(tmp_path: Path, client: Callable[[], list[str]]) -> None:
    """A server and clients that know no sessions: calls, progress, errors, a subscription of the Python SDK's
    client, and a call that is given up."""
    port, command = free_port(), client()

    def talk(url: str) -> str:
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    with process([sys.executable, os.fspath(CLIENTS / "modern_server.py"), str(port)], port):
        upstream = f"http://127.0.0.1:{port}/mcp"
        plain = talk(upstream)
        with gateway("record", tmp_path, upstream) as url:
            assert talk(url) == plain
    for _ in range(3):
        with gateway("replay", tmp_path) as url:
            assert talk(url) == plain
    assert "2026-07-28" in plain.splitlines()[0]


def test_many_clients_at_once(tmp_path: Path) -> None:
    """Each has its session, and in replay its scope."""
    with everything("streamableHttp") as server, gateway("record", tmp_path, server) as url:
        plain = count(url)
    with gateway("replay", tmp_path) as url:
        parts = urlsplit(url)
        scopes = [parts._replace(path=f"/s-{number}{parts.path}").geturl() for number in range(6)]
        told: list[str] = []
        threads = [threading.Thread(target=lambda one=one: told.append(count(one))) for one in scopes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == [plain] * 6
