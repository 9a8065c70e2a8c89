"""Servers as processes: what they may do, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import Transport
from cortex_replay.run.mcp.stdio import frames
from cortex_replay.run.mcp.stdio.process import ProcessLink
from tests.run.mcp.stdio.servers import HONEST, answering, server
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")


def frame(number: int, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def is_there(group: int) -> bool:
    """Whether somebody of a process group runs; who has ended and whom nobody has asked for does not."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(group) and "Z" not in line for line in listed.splitlines())


@asynccontextmanager
async def link_to(command: list[str], **options: Any) -> AsyncIterator[ProcessLink]:
    """A link whose server is gone afterwards, with all that it started."""
    groups: dict[int, bool] = {}
    link = await ProcessLink.start(command, note=groups.__setitem__, **options)
    try:
        yield link
    finally:
        await link.close()
        assert list(groups.values()) == [False]
        assert not any(map(is_there, groups))


async def first_of(link: ProcessLink) -> Said:
    return await anext(link.frames())


async def problem_of(link: ProcessLink) -> str:
    """How the frames of a link end."""
    with pytest.raises(Transport) as raised:
        async for _ in link.frames():
            pass
    return str(raised.value).removeprefix("transport: ")


def test_frames_go_both_ways_and_the_server_ends_with_its_input() -> None:
    async def check() -> None:
        async with link_to(server(HONEST)) as link:
            await link.send(frame(1, text="grüß\u2028dich"))
            said = json.loads((await first_of(link)).frame)
            assert said == {"jsonrpc": "2.0", "id": 1, "result": {"echo": {"text": "grüß\u2028dich"}}}

    asyncio.run(check())


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("sys.exit(3)", "the server has ended (exit status 3)"),
        ("os.kill(os.getpid(), 9)", "the server was ended by signal 9"),
        (
            'out.write(b\'{"jsonrpc": "2.0", "id": 2, "res\'); out.flush(); os._exit(0)',
            "the server has ended (exit status 0) in the middle of a frame",
        ),
    ],
)
def test_how_a_server_ended_is_told(program: str, problem: str) -> None:
    async def check() -> None:
        async with link_to(answering(program)) as link:
            await link.send(frame(1))
            assert json.loads((await first_of(link)).frame)["result"] == {"n": 1}
            await link.send(frame(2))
            assert await problem_of(link) == problem

    asyncio.run(check())


def test_a_server_that_closes_its_output_and_stays_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.run.mcp.stdio.process._LAST_WORDS_S", 0)
    program = "os.close(1)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"

    async def check() -> None:
        async with link_to(server(program), grace_s=0) as link:
            assert await problem_of(link) == "the server has closed its output, and runs on"
            with pytest.raises(Transport, match="the server has ended"):
                await link.send(frame(1))

    asyncio.run(check())


def test_a_server_that_ignores_the_end_and_every_word_is_killed_with_its_children() -> None:
    program = (
        "import subprocess\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '600'])\n"
        "say({'method': 'ready'})\n"
        "while True: time.sleep(60)"
    )

    async def check() -> None:
        async with link_to(server(program), grace_s=0.05) as link:
            await first_of(link)

    asyncio.run(check())


def test_children_that_a_server_leaves_behind_are_ended() -> None:
    program = (
        "import subprocess\nsubprocess.Popen(['sleep', '600'])\nsay({'method': 'x'})\nfor _ in hear(): pass"
    )

    async def check() -> None:
        async with link_to(server(program)) as link:
            await first_of(link)

    asyncio.run(check())


def test_a_frame_without_an_end_is_no_longer_read() -> None:
    """It would fill the memory."""
    program = "block = b'x' * 65536\nwhile True:\n    out.write(block)"

    async def check() -> None:
        async with link_to(server(program), grace_s=0) as link:
            link._reader._most = 2**20
            problem = await problem_of(link)
            assert problem == "the server sent a frame that cannot be taken: it is larger than 1 MiB"

    asyncio.run(check())


def test_who_floods_is_read_no_faster_than_the_client_reads() -> None:
    """The pipe is full then, and the server waits: it counts what it could write."""
    program = (
        "os.set_blocking(1, False)\n"
        "written = 0\n"
        "try:\n"
        "    while True: written += os.write(1, b'x' * 1000 + b'\\n')\n"
        "except BlockingIOError: pass\n"
        "os.set_blocking(1, True)\n"
        "sys.stderr.write(str(written)); sys.stderr.close()\n"
        "for _ in hear(): pass\n"
    )

    async def check() -> None:
        reading, writing = os.pipe()
        async with link_to(server(program), errors=writing) as link:
            os.close(writing)
            frames = link.frames()
            await anext(frames)
            written = int(await asyncio.to_thread(os.read, reading, 100))
            assert written <= 2**20  # a pipe, not our memory
            os.close(reading)
            await frames.aclose()

    asyncio.run(check())


def test_who_does_not_read_is_given_up() -> None:
    async def check() -> None:
        async with link_to(server("time.sleep(600)"), grace_s=0, patience_s=0.05) as link:
            with pytest.raises(Transport, match=r"the server did not read its input for 0\.05 s"):
                await link.send(frame(1, text="x" * 2**20))

    asyncio.run(check())


def test_lines_that_are_no_json_are_frames_like_others() -> None:
    async def check() -> None:
        async with link_to(server("out.write(b'Hello!\\n\\n  \\n\\xff\\n'); out.flush()")) as link:
            frames = link.frames()
            assert [(await anext(frames)).frame for _ in range(2)] == [b"Hello!", b"\xff"]
            await problem_of(link)

    asyncio.run(check())


def test_errors_of_the_server_go_where_they_are_sent(tmp_path: Path) -> None:
    async def check() -> None:
        with (tmp_path / "errors").open("wb") as file:
            async with link_to(server("sys.stderr.write('help\\n')"), errors=file.fileno()) as link:
                await problem_of(link)
        assert (tmp_path / "errors").read_text() == "help\n"

    asyncio.run(check())


@pytest.mark.parametrize("command", [["/nothing/there"], ["nul\0"], ["."]])
def test_what_cannot_be_started_is_told(command: list[str]) -> None:
    with pytest.raises(Transport, match="cannot be started"):
        asyncio.run(ProcessLink.start(command))


def test_a_reader_joins_lines_that_come_in_pieces() -> None:
    async def check() -> None:
        reading, writing = os.pipe()
        reader = frames.FrameReader(reading)
        got: list[bytes] = []

        async def read() -> None:
            async for line in reader.frames():
                got.append(line)  # noqa: PERF401 - it is looked at on the way

        task = asyncio.ensure_future(read())
        for piece, so_far in [(b"a", []), (b"b\nc", [b"ab"]), (b"\n\r\nd\ne", [b"ab", b"c", b"d"])]:
            os.write(writing, piece)
            await until(lambda so_far=so_far: got == so_far)  # type: ignore[misc]
        os.close(writing)
        await task
        os.close(reading)
        assert (got[-1], reader.is_cut) == (b"e", True)

    asyncio.run(check())
