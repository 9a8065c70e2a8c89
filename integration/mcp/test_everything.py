"""All of server-everything over stdio, by the SDKs' clients: recorded, then replayed without the server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from integration import install
from integration.mcp.reference_servers import copy_servers, entry_of, reference_servers

CLIENTS: Final = Path(__file__).parent / "clients"
PROGRAM: Final = Path(sys.executable).with_name("cortex-replay")
REPLAYS: Final = 20
USED: Final = {
    *("initialize", "ping", "tools/list", "tools/call", "logging/setLevel", "completion/complete"),
    *("resources/list", "resources/read", "resources/templates/list", "prompts/list", "prompts/get"),
    *("resources/subscribe", "resources/unsubscribe"),
}
SAID: Final = {
    *("notifications/progress", "notifications/message", "notifications/tools/list_changed"),
    *("notifications/resources/list_changed", "notifications/resources/updated"),
    *("roots/list", "sampling/createMessage", "elicitation/create"),
}
"""What the server says besides answers."""


def client_of(kind: str) -> list[str]:
    if kind in ("python", "modern"):
        script = "everything.py" if kind == "python" else "modern.py"
        return [sys.executable, "-W", "ignore", os.fspath(CLIENTS / script)]
    return [install.needed("node", "run the client"), os.fspath(CLIENTS / "everything.cjs")]


class Road:
    """A client that starts the shim where its server would stand."""

    def __init__(self, kind: str, folder: Path, server: Sequence[str], **environment: str) -> None:
        self._client = client_of(kind)
        self._folder = folder
        self._server = server
        modules = os.fspath(reference_servers())
        self._environment = {**os.environ, "MCP_MODULES": modules, **environment}
        self.frames = b""
        """What the shim said last, byte by byte."""

    def take(self, mode: str) -> list[Any]:
        """What the client got."""
        log = self._folder / "frames"
        shim = [os.fspath(PROGRAM), "mcp", "every", "--mode", mode, "--", *self._server]
        tee = [sys.executable, os.fspath(CLIENTS / "tee.py"), os.fspath(log), *shim]
        done = subprocess.run(
            [*self._client, "stdio", *tee],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            timeout=120,
            check=True,
        )
        self.frames = log.read_bytes()
        return [json.loads(line) for line in done.stdout.splitlines()]


def essence(lines: Sequence[Any]) -> Counter[str]:
    """What was said, whatever came between and whatever ids a server gives its requests."""
    got = [line["got"] for line in lines if "got" in line]
    return Counter(
        json.dumps({**said, "id": None} if "method" in said else said, sort_keys=True) for said in got
    )


@pytest.mark.parametrize("kind", ["python", "typescript"])
def test_everything_is_replayed_without_the_server(tmp_path: Path, kind: str) -> None:
    servers = copy_servers(tmp_path / "servers")
    road = Road(kind, tmp_path, ["node", os.fspath(entry_of(servers, "everything")), "stdio"])
    recorded = road.take("record")
    shutil.rmtree(servers)

    replays = [(road.take("replay"), road.frames) for _ in range(REPLAYS)]

    assert recorded[-1]["done"] > 50
    said = {line["got"]["method"] for line in recorded if "method" in line.get("got", {})}
    assert said >= SAID
    lines, frames = replays[0]
    assert essence(lines) == essence(recorded)
    assert [line for line in lines if "got" not in line] == [line for line in recorded if "got" not in line]
    assert all(replay == (lines, frames) for replay in replays)
    stored = "".join(path.read_text() for path in tmp_path.glob("fixtures/**/*.json"))
    assert [method for method in sorted(USED - {"ping"}) if f'"path": "{method}"' not in stored] == []
    subprocess.run([PROGRAM, "verify", "--strict"], cwd=tmp_path, check=True)


def test_a_tool_that_runs_as_a_task_is_polled_again(tmp_path: Path) -> None:
    servers = copy_servers(tmp_path / "servers")
    command = ["node", os.fspath(entry_of(servers, "everything")), "stdio"]
    road = Road("typescript", tmp_path, command, TASKS="1")
    recorded = road.take("record")
    shutil.rmtree(servers)

    replayed = road.take("replay")

    kinds = [line.get("task", line.get("asks")) for line in recorded if "got" not in line]
    assert kinds.count("result") == 2
    assert kinds.count("taskStatus") > 4
    assert [line.get("task", line.get("asks")) for line in replayed if "got" not in line] == kinds
    assert essence(replayed) == essence(recorded)


def test_requests_that_stand_alone_are_replayed(tmp_path: Path) -> None:
    """With input that a tool asks for, and with what a subscription is told between other calls."""
    server = tmp_path / "server.py"
    shutil.copy(Path(__file__).parent / "servers" / "modern.py", server)
    road = Road("modern", tmp_path, [sys.executable, os.fspath(server)])
    recorded, frames = road.take("record"), road.frames
    server.unlink()

    replayed = road.take("replay")

    assert recorded[-1] == {"done": True}
    assert recorded[1] == {"version": "2026-07-28"}
    assert replayed == recorded
    assert road.frames.count(b"listen-1") == frames.count(b"listen-1") > 4


ONCE: Final = """
import asyncio, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main(tools, command):
    async with Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:]))) as client:
        for name in tools.split(","):
            answer = await client.call_tool(name, {"a": 1, "b": 2, "message": "hello"})
            print(answer.content[0].text)

asyncio.run(main(sys.argv[1], sys.argv[2:]))
"""


def test_once_starts_the_server_for_what_is_new(tmp_path: Path) -> None:
    entry = entry_of(reference_servers(), "everything")
    (tmp_path / "serve.sh").write_text(f'echo started >> marks\nexec node "{entry}" stdio\n')
    shim = [os.fspath(PROGRAM), "mcp", "every", "--mode", "once", "--", "sh", "serve.sh"]

    def take(tools: str) -> tuple[str, int]:
        done = subprocess.run(
            [sys.executable, "-c", ONCE, tools, *shim],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        marks = tmp_path / "marks"
        return done.stdout, marks.read_text().count("started") if marks.exists() else 0

    first = take("get-sum")
    same = take("get-sum")
    more = take("get-sum,echo")
    again = take("get-sum,echo")

    assert first == same == ("The sum of 1 and 2 is 3.\n", 1)
    assert more == again == ("The sum of 1 and 2 is 3.\nEcho: hello\n", 2)
