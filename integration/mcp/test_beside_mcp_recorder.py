"""What cortex-replay and mcp-recorder record of one client and one server: the table of ``docs/mcp.md``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from integration import install
from tests.redact.kinds import IN_CONTEXT, KINDS

VERSION: Final = "0.5.0"
HERE: Final = Path(__file__).parent / "beside"
PAGE: Final = Path(__file__).parents[2] / "docs" / "mcp.md"
SERVER: Final = [sys.executable, str(HERE / "server.py")]
TOOLS: Final = ["count", "echo", "ask", "wait", "work"]
_SECONDS: Final = 40
_ALL = {**KINDS, **IN_CONTEXT}
_SAMPLES: Final = {kind: _ALL[kind](Random(f"beside {kind}")) for kind in [*[*KINDS][::5], *IN_CONTEXT]}


def mcp_recorder() -> Path:
    """The program as the registry has it, with a Starlette before 1.0, which has what it calls."""

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        pip: list[str | Path] = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
        ]
        install.completed([*pip, f"mcp-recorder=={VERSION}", "starlette<1"])

    return install.once(install.BENCH / "mcp" / f"mcp-recorder@{VERSION}", fill) / "bin" / "mcp-recorder"


class Recorder:
    """One of the two, with a folder for what it records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        raise NotImplementedError

    def replay(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        raise NotImplementedError

    def recorded(self) -> bytes:
        raise NotImplementedError

    def change(self, old: bytes, new: bytes) -> None:
        """Edit what is recorded, by hand."""
        for path in (path for path in self.folder.rglob("*.json") if path.name != "arguments.json"):
            path.write_bytes(path.read_bytes().replace(old, new))

    def _converse(self, arguments: object, polls: int, *words: str) -> dict[str, Any]:
        given = self.folder / "arguments.json"
        given.write_text(json.dumps(arguments))
        told = {"PATH": os.environ["PATH"], "ARGUMENTS": str(given), "POLLS": str(polls)}
        done = subprocess.run(
            [sys.executable, str(HERE / "client.py"), *words],
            env=told | {"HOME": str(self.folder)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        given.unlink()
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"failed": done.stderr}
        return found


class Ours(Recorder):
    def record(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        return self._run("record", arguments, polls, SERVER)

    def replay(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        return self._run("replay", arguments, polls, ["no-such-server"])

    def recorded(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in (self.folder / "llm").rglob("*") if path.is_file())

    def _run(self, mode: str, arguments: object, polls: int, server: list[str]) -> dict[str, Any]:
        words = [sys.executable, "-m", "cortex_replay", "mcp", "--mode", mode, "--store", "llm", "hard", "--"]
        return self._converse(arguments, polls, "stdio", *words, *server)


class Theirs(Recorder):
    def record(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        target = " ".join(SERVER)
        with self._serving("record", "--target-stdio", target, "--output", "cassette.json") as url:
            return self._converse(arguments, polls, "http", url)

    def replay(self, arguments: object, polls: int = 3) -> dict[str, Any]:
        with self._serving("replay", "--cassette", "cassette.json") as url:
            return self._converse(arguments, polls, "http", url)

    def recorded(self) -> bytes:
        return (self.folder / "cassette.json").read_bytes()

    @contextmanager
    def _serving(self, *words: str) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [str(mcp_recorder()), *words, "--port", str(port)]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as peer:
            try:
                _await_port(port)
                yield f"http://127.0.0.1:{port}/mcp"
                _end(peer)
            finally:
                peer.kill()


def _end(peer: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does: it waits for open calls until it comes a second time, and then writes its file."""
    for _ in range(2):
        peer.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            peer.wait(3)
            return
    peer.wait(_SECONDS)


def _await_port(port: int) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("mcp-recorder does not listen")


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    (tmp_path / "ours").mkdir()
    return Ours(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    (tmp_path / "theirs").mkdir()
    return Theirs(tmp_path / "theirs")


def test_what_both_replay(ours: Ours, theirs: Theirs) -> None:
    for recorder in (ours, theirs):
        live = recorder.record({"a": 1})
        replayed = recorder.replay({"a": 1})

        for found in (live, replayed):
            assert (found["pages"], found["polls"]) == (TOOLS, ["1", "2", "3"]), found
            assert json.loads(found["echo"]) == {"a": 1}
            assert found["blob"] == 344
            assert (found["together"]["waits"], found["together"]["works"]) == ("second", "first")


def test_what_a_server_says_besides_its_answers(ours: Ours, theirs: Theirs) -> None:
    """Progress, and a request of its own."""
    steps = [[1.0, 3.0], [2.0, 3.0], [3.0, 3.0]]
    for found in (ours.record({}), ours.replay({})):
        assert found["together"]["progress"] == steps
        assert found["asked back"] == "the client said oolong"

    live, replayed = theirs.record({}), theirs.replay({})
    assert live["together"]["progress"] == replayed["together"]["progress"] == []
    assert live["asked back"] == "nothing came"
    assert replayed["asked back"] == "error: No matching interaction for tools/call [ask]"


def test_secrets(ours: Ours, theirs: Theirs) -> None:
    assert len(_SAMPLES) == 27
    arguments = {f"value {number}": secret.whole for number, secret in enumerate(_SAMPLES.values())}
    for recorder in (ours, theirs):
        recorder.record(arguments)
    held = {
        name: [kind for kind, secret in _SAMPLES.items() if secret.text.encode() in recorder.recorded()]
        for name, recorder in (("ours", ours), ("theirs", theirs))
    }

    assert held["ours"] == []
    assert len(held["theirs"]) >= 25, "in all but those that JSON spells otherwise"
    assert "REDACTED" in ours.replay(arguments)["echo"], "and it is found again"


def test_one_call_more_than_was_recorded(ours: Ours, theirs: Theirs) -> None:
    for recorder in (ours, theirs):
        recorder.record({})
        found = recorder.replay({}, polls=4)
        assert found["polls"].startswith("error: "), found


def test_a_recording_that_was_edited(ours: Ours, theirs: Theirs) -> None:
    for recorder in (ours, theirs):
        recorder.record({})
        recorder.change(b'"text": "2"', b'"text": "7"')

    assert theirs.replay({})["polls"] == ["1", "7", "3"]
    assert "its bytes differ from the index" in ours.replay({})["polls"]


def test_another_directory(ours: Ours, theirs: Theirs, tmp_path: Path) -> None:
    for recorder in (ours, theirs):
        recorder.record({"path": f"{recorder.folder}/notes.txt"})
        recorder.folder = recorder.folder.rename(tmp_path / f"{recorder.folder.name}-elsewhere")
    moved = {"path": f"{ours.folder}/notes.txt"}

    assert json.loads(ours.replay(moved)["echo"]) == moved
    assert theirs.replay({"path": f"{theirs.folder}/notes.txt"})["echo"].startswith("error: No matching")
