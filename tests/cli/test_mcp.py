"""``cortex-replay mcp``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import shim
from cortex_replay.cli import entry
from cortex_replay.run.mcp.stdio.shim import shim_command
from tests.cli.commands import run
from tests.run.mcp.stdio.servers import HONEST, server
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="recording needs Linux or macOS")

PROGRAM = (sys.executable, "-m", "cortex_replay", "mcp")


@contextlib.contextmanager
def client(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if name != shim.VARIABLE}
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, env=environment, start_new_session=True, **streams
    )
    with process:
        yield process


def ask(process: subprocess.Popen[bytes], number: int, **params: Any) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_it_records_and_replays_without_the_server(tmp_path: Path) -> None:
    """Also options behind the name."""
    command = server(HONEST + "open('ended', 'w').close()")
    with client("tools", "--mode", "once", "--", *command, folder=tmp_path) as recording:
        answer = ask(recording, 1, name="a")
        _, talk = recording.communicate()
    assert (recording.returncode, talk) == (0, b"recorded 1\n")
    assert (tmp_path / "ended").exists()

    with client("tools", "--", "/nothing/there", folder=tmp_path) as replaying:
        assert ask(replaying, 1, name="a") == answer
        miss = ask(replaying, 2, name="b")
        replaying.communicate()

    assert replaying.returncode == 0
    assert miss["error"]["data"] == {"type": "no_fixture"}
    assert "cortex-replay mcp tools --mode once" in miss["error"]["message"]
    assert "-- /nothing/there" in miss["error"]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_ended_by_its_client_keeps_what_that_has_seen(tmp_path: Path, number: int) -> None:
    """SDKs close its input, wait for two seconds, and end it; some kill it at once."""
    command = server(HONEST + "open('ended', 'w').close()")
    with client("tools", "--mode", "record", "--", *command, folder=tmp_path) as recording:
        ask(recording, 1, name="a")
        os.killpg(recording.pid, number)  # as the Python SDK does
        recording.wait()
    wait_until(lambda: b"mcp:tools" in b"".join(path.read_bytes() for path in tmp_path.rglob("*-*.json")))
    wait_until(lambda: run("verify", "--strict", tmp_path).exit_code == 0)

    assert recording.returncode == (128 + number if number == signal.SIGTERM else -number)


def test_within_a_run_the_run_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the ancestors of the shim: its client gives it no environment."""
    monkeypatch.chdir(tmp_path)
    message = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}}\n'
    program = (
        "import subprocess, sys\n"
        f"done = subprocess.run({shim_command('tools', server(HONEST))!r}, input={message!r}, "
        "text=True, capture_output=True, env={})\n"
        "open('said', 'a').write(done.stdout)\n"
        "sys.exit(done.returncode)"
    )
    recorded = run("record", "--no-key", "--", sys.executable, "-I", "-c", program)
    replayed = run("replay", "--fail-on", "live", "--", sys.executable, "-I", "-c", program)

    assert (recorded.exit_code, replayed.exit_code) == (0, 0), recorded.output + replayed.output
    first, second = Path("said").read_text().splitlines()
    assert first.replace(" ", "") == second
    assert json.loads(first)["result"] == {"echo": {"name": "a"}}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["tools"], "give the server behind --"),
        (["--", "npx"], "Missing argument 'NAME'"),
        (["a", "b", "--", "npx"], "the command goes behind --"),
        (["", "--", "npx"], "printable characters"),
        (["tools", "--mode", "sometimes", "--", "npx"], "is not one of"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], problem: str) -> None:
    done = run("mcp", *arguments)

    assert done.exit_code == 2
    assert problem in " ".join(done.stderr.split())


def test_a_run_that_has_ended_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(shim.VARIABLE, str(tmp_path / "gone"))
    monkeypatch.setattr(sys, "argv", ["cortex-replay", "mcp", "tools", "--", "npx"])

    assert entry.main() == 1
    assert "CORTEX_REPLAY_MCP names a run that has ended" in capsys.readouterr().err
