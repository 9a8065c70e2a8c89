"""Servers that send far too much, hang, die or talk rubbish: a clear error, nothing lost, no hang, and no
more memory than a frame may have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = os.fspath(Path(sys.executable).with_name("cortex-replay"))
_HEAD: Final = """\
import json, sys
out = sys.stdout.buffer
def answer(message, result):
    out.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")
    out.flush()
lines = iter(sys.stdin)
answer(json.loads(next(lines)), {"first": True})
second = json.loads(next(lines))
"""
HUNDRED_MEGABYTES: Final = """\
answer(second, {"x": "x" * 100 * 2**20})
for line in lines: pass
"""
FLOOD: Final = """\
said = {"level": "info", "data": "x" * 10_000}
note = {"jsonrpc": "2.0", "method": "notifications/message", "params": said}
for _ in range(30_000):
    out.write(json.dumps(note).encode() + b"\\n")
answer(second, {"second": True})
for line in lines: pass
"""


def talk(folder: Path, program: str) -> tuple[list[Any], int, int]:
    """Two calls: what came that is no notification, how many of these did, and the largest memory in MiB."""
    watched = "import os, sys, resource, subprocess\ncode = subprocess.call(sys.argv[1:])\n"
    watched += "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024))\n"
    shim = [PROGRAM, "mcp", "big", "--mode", "record", "--", sys.executable, "-c", _HEAD + program]
    answers, notes = [], 0
    with subprocess.Popen(
        [sys.executable, "-c", watched, *shim],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for number in (1, 2):
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": str(number)}}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            while "id" not in (said := json.loads(process.stdout.readline())):
                notes += 1
            answers.append(said)
        process.stdin.close()
        memory = int(process.stderr.read().split()[-1])
    return answers, notes, memory


def test_a_frame_of_a_hundred_megabytes_is_an_error_of_the_call(tmp_path: Path) -> None:
    (first, second), _, memory = talk(tmp_path, HUNDRED_MEGABYTES)

    assert first["result"] == {"first": True}
    assert "a frame that cannot be taken: it is larger than 64 MiB" in second["error"]["message"]
    assert memory < 400
    shown = subprocess.run(
        [PROGRAM, "verify", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert len([*tmp_path.glob("fixtures/**/*.json")]) == 1


def test_a_flood_reaches_the_client_and_not_the_memory(tmp_path: Path) -> None:
    (_, second), notes, memory = talk(tmp_path, FLOOD)

    assert second["result"] == {"second": True}
    assert notes == 30_000
    assert memory < 400


DEAF = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
answer(second, {"second": os.getpid()})
while True: time.sleep(60)
"""


def test_whoever_does_the_work_may_be_killed(tmp_path: Path) -> None:
    """The command then ends the server, and the next run takes over what the client has seen."""
    shim = [PROGRAM, "mcp", "big", "--mode", "record", "--"]
    with subprocess.Popen(
        [*shim, sys.executable, "-c", _HEAD + DEAF],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2):
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": str(number)}}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
        worker = subprocess.check_output(["pgrep", "-P", str(process.pid)], text=True).split()[0]
        os.kill(int(worker), signal.SIGKILL)
        assert process.wait() == 128 + signal.SIGKILL
    left = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(said["result"]["second"])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert left.stdout.strip()[:1] in ("", "Z")

    done = subprocess.run(
        [*shim, "/nothing/there"], cwd=tmp_path, input="", capture_output=True, text=True, check=True
    )
    assert "took over 2 answers of a run that died" in done.stderr
    assert len([*tmp_path.glob("fixtures/**/*.json")]) == 2


CALLS = """\
import logging, sys
import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main(command):
    async with Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:]))) as client:
        for tool in ("fine", "rubbish", "hangs", "fine", "dies", "rubbish"):
            try:
                answer = await client.call_tool(tool, {}, read_timeout_seconds=2 if tool == "hangs" else 60)
                print(tool, answer.content[0].text)
            except MCPError as error:
                print(tool, "failed:", str(error).splitlines()[0])

logging.disable(logging.CRITICAL)
anyio.run(main, sys.argv[1:])
"""


def call_all(folder: Path, *command: str) -> list[str]:
    """What a client of the Python SDK gets, call by call."""
    shim = [sys.executable, "-W", "ignore", "-c", CALLS, PROGRAM, "mcp", "bad", *command]
    done = subprocess.run(
        shim, cwd=folder, capture_output=True, text=True, timeout=120, check=True, stdin=subprocess.DEVNULL
    )
    return done.stdout.splitlines()


def test_a_server_that_hangs_talks_rubbish_and_dies_in_a_frame(tmp_path: Path) -> None:
    server = Path(__file__).parent / "servers" / "misbehaving.py"
    recorded = call_all(tmp_path, "--mode", "record", "--", sys.executable, os.fspath(server))
    replayed = call_all(tmp_path, "--", "/nothing/there")

    alike = ["fine fine", "rubbish rubbish", "hangs failed: Request 'tools/call' timed out", "fine fine"]
    died = "failed: cortex-replay: bad: the server has ended (exit status 3) in the middle of a frame"
    assert recorded == [*alike, f"dies {died}", f"rubbish {died}"]
    assert replayed[:4] == alike
    assert "nothing is recorded for tool dies of server bad" in replayed[4]
    assert replayed[5] == "rubbish rubbish"
    subprocess.run([PROGRAM, "verify", "--strict"], cwd=tmp_path, check=True)
