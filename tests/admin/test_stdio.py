"""One message a line, through real pipes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.admin import METHOD, Code
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.rpc import MAX_BYTES, Params, RpcDispatcher
from cortex_replay.admin.stdio import FileReader, FileWriter, LineReader, LineWriter, serve_lines
from tests.admin.conftest import GRANTED, Noting, call, dispatcher_of
from tests.waiting import until

Streams = Callable[[int, int], Awaitable[tuple[LineReader, LineWriter]]]


async def of_files(source: int, sink: int) -> tuple[LineReader, LineWriter]:
    return FileReader(source), FileWriter(sink)


async def of_asyncio(source: int, sink: int) -> tuple[LineReader, LineWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=16)  # its limit is on lines, and ours is another
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb"))
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(sink, "wb")
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def spoken(dispatcher: RpcDispatcher, data: bytes, streams: Streams = of_files) -> list[Any]:
    """What the server says to some bytes, through pipes that other threads fill and empty."""
    source, fill = os.pipe()
    empty, sink = os.pipe()
    said: list[bytes] = []

    def write() -> None:
        with os.fdopen(fill, "wb") as file:
            file.write(data)

    def read() -> None:
        with os.fdopen(empty, "rb") as file:
            said.append(file.read())

    async def serve() -> None:
        reader, writer = await streams(source, sink)
        await serve_lines(dispatcher, GRANTED, reader, writer)
        if isinstance(writer, asyncio.StreamWriter):
            writer.close()
            await asyncio.sleep(0.01)
        else:
            os.close(source)
            os.close(sink)

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    asyncio.run(serve())
    for thread in threads:
        thread.join(10)
    lines = said[0].split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines]


def message(id_: Any, **changes: Any) -> bytes:
    params = call(**changes)
    return json.dumps({"jsonrpc": "2.0", "method": METHOD, "params": params, "id": id_}).encode()


@pytest.mark.parametrize("streams", [of_files, of_asyncio])
def test_lines_in_lines_out(streams: Streams) -> None:
    """Blank ones are none, a carriage return is no part of one, and the last needs no end."""
    data = (
        message(1)
        + b"\r\n\n  \n"
        + b"nonsense\n"
        + b"["
        + message(2)
        + b","
        + message(3)
        + b"]\n"
        + message(4)
    )
    answers = spoken(dispatcher_of(), data, streams)
    ids = [one["id"] if isinstance(one, dict) else [inner["id"] for inner in one] for one in answers]

    assert sorted(ids, key=str) == [1, 4, None, [2, 3]] or sorted(ids, key=str) == [1, 4, [2, 3], None]
    assert len(answers) == 4


def test_text_with_line_ends_stays_on_its_line() -> None:
    """Whatever kind of line end."""
    text = "a\nb\r\nc\u2028d\u0085e"
    answers = spoken(dispatcher_of(Noting()), message(text))

    assert [answer["id"] for answer in answers] == [text]


def test_calls_are_under_way_together() -> None:
    """A quick one does not wait for a slow one before it, and the end waits for both."""

    ended: list[object] = []

    async def wait(params: Params, caller: Caller) -> Any:
        assert isinstance(params, list)
        await until(lambda: len(ended) == params[0])
        ended.append(params)

    lines = [
        json.dumps({"jsonrpc": "2.0", "method": "wait", "params": [place], "id": place}).encode()
        for place in (2, 0, 1)
    ]
    answers = spoken(RpcDispatcher({"wait": wait}), b"\n".join(lines))

    assert [answer["id"] for answer in answers] == [0, 1, 2]


def test_many_calls() -> None:
    """More than are let in at once; every one is answered once."""
    adapter = Noting(delay_s=0.001)
    answers = spoken(dispatcher_of(adapter), b"\n".join(message(i) for i in range(500)))

    assert sorted(answer["id"] for answer in answers) == list(range(500))
    assert 1 < adapter.most_at_once <= 64


@pytest.mark.parametrize("streams", [of_files, of_asyncio])
def test_a_line_that_is_too_long(streams: Streams) -> None:
    """Is a parse error, and the next one is a line like any other."""
    data = b"x" * (MAX_BYTES + 1) + b"\n" + message(1) + b"\n" + b"y" * (2 * MAX_BYTES)
    answers = spoken(dispatcher_of(), data, streams)

    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert codes == [Code.PARSE_ERROR, Code.PARSE_ERROR]
    assert [answer["id"] for answer in answers if "result" in answer] == [1]


def test_a_line_of_the_greatest_length() -> None:
    """Is one."""
    start, end = message(1)[:-1], b"}\n"
    answers = spoken(dispatcher_of(), start + b" " * (MAX_BYTES - len(start) - 1) + end)

    assert "result" in answers[0]


def test_notifications_are_not_answered() -> None:
    adapter = Noting()
    notification = json.dumps({"jsonrpc": "2.0", "method": METHOD, "params": call()}).encode()

    assert spoken(dispatcher_of(adapter), notification + b"\n" + notification) == []
    assert len(adapter.asked) == 2


def test_whoever_reads_no_more_ends_it() -> None:
    """Along with what is under way, though lines could still come."""
    source, fill = os.pipe()
    empty, sink = os.pipe()
    os.close(empty)
    ended: list[int] = []

    async def slow(params: Params, caller: Caller) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def serve() -> None:
        dispatcher = RpcDispatcher({"slow": slow, **dispatcher_of()._methods})
        await asyncio.wait_for(serve_lines(dispatcher, GRANTED, FileReader(source), FileWriter(sink)), 10)

    os.write(fill, b'{"jsonrpc":"2.0","method":"slow","id":1}\n' + message(2) + b"\n")
    asyncio.run(serve())
    os.close(fill)
    os.close(sink)

    assert ended == [1]


PROGRAM = """
import asyncio, sys
from cortex_replay.admin.callers import Caller
from cortex_replay.admin.rpc import RpcDispatcher
from cortex_replay.admin.service import LlmService
from cortex_replay.admin.stdio import FileReader, FileWriter, serve_lines
from cortex_replay.config import Settings
from cortex_replay.testing import EchoAdapter

async def main():
    service = LlmService(Settings(), lambda name: EchoAdapter())
    caller = Caller("parent", frozenset(["llm_complete"]))
    await serve_lines(RpcDispatcher(service.methods), caller, FileReader(0), FileWriter(1))
    await service.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_program(kind: str, tmp_path: Path) -> None:
    """With standard input from a pipe or a file."""
    data = b"\n".join(message(i, provider="echo") for i in range(3))
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    given: dict[str, Any] = {"input": data} if kind == "pipe" else {"stdin": path.open("rb")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=300, check=True, **given
    )
    if kind == "file":
        given["stdin"].close()

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2]
    assert {answer["result"]["content"] for answer in answers} == {"Hello!"}
    assert done.stderr == b""
