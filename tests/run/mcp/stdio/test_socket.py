"""The socket of a run, and those who come to it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import shim
from cortex_replay.modes import Mode
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio import socket as run_socket
from cortex_replay.run.mcp.stdio.socket import RunSocket
from tests.engine.mcp.harness import run_at
from tests.run.mcp.stdio.servers import HONEST, server
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs sockets of Unix")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(shim, "places", lambda: [folder])
        yield Path(folder)


def recorded(store: Path) -> list[Path]:
    return [path for path in store.rglob("*.json") if ".cortex-replay" not in path.parts]


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


class Shim:
    """A client whose streams are handed over to a run."""

    def __init__(self, path: str, command: list[str], name: str = "tools", scope: str = "") -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(path)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        self.errors, theirs_errors = os.pipe()
        theirs = (theirs_in, theirs_out, theirs_errors)
        with contextlib.suppress(BrokenPipeError):  # nobody wants to hear it
            shim.hand_over(self.connection, shim.Invocation(name, command, scope), theirs)
        for descriptor in theirs:
            os.close(descriptor)

    def say(self, method: str, number: int | None = None, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        message |= {} if number is None else {"id": number}
        os.write(self._to, json.dumps(message).encode() + b"\n")

    def ask(self, number: int, **params: Any) -> Any:
        self.say("tools/call", number, **params)
        said = b""
        while not said.endswith(b"\n"):
            block = os.read(self._from, 65536)
            assert block, "the session has ended"
            said += block
        return json.loads(said)

    def leave(self) -> int | bytes | None:
        """Close the input, and wait for the end; gives the status."""
        os.close(self._to)
        return self._end()

    def die(self) -> None:
        """As a shim that is killed."""
        self.connection.close()
        assert os.read(self._from, 1) == b""
        for descriptor in (self._to, self._from, self.errors):
            os.close(descriptor)

    def _end(self) -> int | bytes | None:
        said = b""
        with self.connection, contextlib.suppress(ConnectionError):
            while block := self.connection.recv(4096):
                said += block
        os.close(self._from)
        os.close(self.errors)
        return next((int(line[1:]) for line in said.splitlines() if line[:1] == b"="), None)


def test_a_client_is_recorded_and_replayed_without_its_server(place: Path, tmp_path: Path) -> None:
    answers = []
    for mode in (Mode.RECORD, Mode.REPLAY):
        run = run_at(tmp_path / "store", mode)
        command = server(HONEST) if mode is Mode.RECORD else ["/nothing/there"]
        with RunSocket.open(Desk(run)) as served:
            assert served is not None
            client = Shim(served.path, command)
            answers.append([client.ask(1, name="a"), client.ask(2, name="b")])
            assert client.leave() == 0
        run.commit()

    assert answers[0] == answers[1]
    assert answers[0][1]["result"] == {"echo": {"name": "b"}}
    assert list(Path(shim.folder_in(str(place))).iterdir()) == []


def test_the_server_has_the_environment_folder_and_errors_of_the_client(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of the run: what the run withheld from its command is not in there."""
    program = (
        "for message in hear():\n"
        "    sys.stderr.write('trouble'); sys.stderr.flush()\n"
        "    seen = [os.environ.get('GIVEN'), os.environ.get('WITHHELD'), os.getcwd()]\n"
        "    say({'id': message['id'], 'result': {'seen': seen}})\n"
    )
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    monkeypatch.setenv("GIVEN", "by the client")
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is not None
        client = Shim(served.path, server(program))
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("GIVEN")
        monkeypatch.setenv("WITHHELD", "by the run")
        seen = client.ask(1)["result"]["seen"]
        assert os.read(client.errors, 100) == b"trouble"
        client.leave()

    assert seen == ["by the client", None, str(tmp_path / "there")]


def test_a_secret_that_the_client_gives_to_its_server_is_not_recorded(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "for message in hear(): say({'id': message['id'], 'result': {'x': os.environ['MY_TOKEN']}})"
    secret = "quite-a-plain-w0rd-9931"
    run = run_at(tmp_path / "store", Mode.RECORD)
    monkeypatch.setenv("MY_TOKEN", secret)
    with RunSocket.open(Desk(run)) as served:
        assert served is not None
        client = Shim(served.path, server(program))
        monkeypatch.delenv("MY_TOKEN")  # the run has none
        assert client.ask(1)["result"] == {"x": secret}
        client.leave()
    run.commit()

    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_shim_that_is_killed_ends_the_server_and_loses_no_answer(place: Path, tmp_path: Path) -> None:
    run = run_at(tmp_path / "store", Mode.RECORD)
    program = HONEST + "open('ended', 'w').close()"
    with RunSocket.open(Desk(run)) as served:
        assert served is not None
        folder = Path.cwd()
        os.chdir(tmp_path)
        try:
            client = Shim(served.path, server(program))
        finally:
            os.chdir(folder)
        client.ask(1)
        client.die()
        wait_until(lambda: not served._clients)
    run.commit()

    [file] = recorded(tmp_path / "store")
    assert json.loads(file.read_bytes())["request"]["path"] == "tools/call"


def test_the_end_of_the_run_ends_its_sessions(place: Path, tmp_path: Path) -> None:
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is not None
        client = Shim(served.path, server(HONEST))
        client.ask(1)
    client.die()


def test_clients_have_the_scope_that_they_name_or_that_of_the_run(place: Path, tmp_path: Path) -> None:
    scopes = []

    class Watching(Desk):
        def open_session(self, server: str, connect: Any, send: Any, scope: str = "") -> Any:
            scopes.append(scope)
            return super().open_session(server, connect, send, scope)

    current: list[str | None] = ["of the run", None]
    desk = Watching(run_at(tmp_path / "store", Mode.RECORD))
    with RunSocket.open(desk, lambda: current.pop(0)) as served:
        assert served is not None
        for scope in ("", "of the client"):
            assert Shim(served.path, server(HONEST), scope=scope).leave() == 0
        assert Shim(served.path, server(HONEST)).leave() is None  # it looks elsewhere

    assert scopes == ["of the run", "of the client"]


def test_another_run_can_have_the_clients(place: Path, tmp_path: Path) -> None:
    run = run_at(tmp_path / "store", Mode.REPLAY)
    with RunSocket.open(Desk(run), lambda: "a test", outer="/some/where") as served:
        assert served is not None
        client = Shim(served.path, server(HONEST))
        assert client.connection.recv(100) == b"@/some/where\0a test\n"
        client.leave()


def head(length: int, magic: bytes = shim.MAGIC) -> bytes:
    return magic + length.to_bytes(4, "big")


GOOD = b"tools\0\0/\x001\0npx"
HOSTILE = {
    "nothing": (b"", 3, b""),
    "another magic": (head(4, b"GET "), 3, GOOD),
    "half a head": (shim.MAGIC, 3, b""),
    "no streams": (head(len(GOOD)), 0, GOOD),
    "many streams": (head(len(GOOD)), 14, GOOD),
    "too many streams": (head(len(GOOD)), 40, GOOD),
    "too much": (head(2**32 - 1), 3, b""),
    "too little": (head(100), 3, b"x"),
    "no fields": (head(1), 3, b"x"),
    "no number": (head(13), 3, b"tools\0\0/\0x\0npx"),
    "no command": (head(10), 3, b"tools\0\0/\x000"),
    "more words than there are": (head(14), 3, b"tools\0\0/\x0099\0x"),
    "a name of controls": (head(14), 3, b"\x1b[31m\0\0/\x001\0npx"),
    "no name": (head(9), 3, b"\0\0/\x001\0npx"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_who_is_no_shim_gets_nothing_and_breaks_nothing(place: Path, tmp_path: Path, case: str) -> None:
    first, streams, rest = HOSTILE[case]
    run = run_at(tmp_path / "store", Mode.RECORD)
    with RunSocket.open(Desk(run)) as served:
        assert served is not None
        before = descriptors()
        with socket.socket(socket.AF_UNIX) as hostile:
            hostile.connect(served.path)
            if first:
                numbers = struct.pack(f"{streams}i", *[0] * streams)
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if streams else []
                hostile.sendmsg([first], rights)
            with contextlib.suppress(ConnectionError):  # it was not even heard out
                hostile.sendall(rest)
                hostile.shutdown(socket.SHUT_WR)
                assert hostile.recv(100) == b""
        wait_until(lambda: not served._clients)
        # Fewer is no leak: what earlier tests left to the collector may go meanwhile.
        assert descriptors() <= before
        good = Shim(served.path, server(HONEST))
        assert good.ask(1)["result"] == {"echo": {}}
        assert good.leave() == 0


def test_who_says_nothing_is_left(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_socket, "_HELLO_S", 0.01)
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is not None
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(served.path)
            assert silent.recv(1) == b""


def test_clients_are_limited_and_another_user_is_none(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_socket, "_MOST_CLIENTS", 1)
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is not None
        first = Shim(served.path, server(HONEST))
        first.ask(1)
        with socket.socket(socket.AF_UNIX) as second:
            second.connect(served.path)
            assert second.recv(1) == b""
        first.leave()
        wait_until(lambda: not served._clients)
        monkeypatch.setattr(shim, "peer_user", lambda _: os.geteuid() + 1)
        assert Shim(served.path, server(HONEST)).leave() is None


@pytest.mark.parametrize("trick", ["open to others", "a link", "a file"])
def test_no_socket_is_put_where_others_can_reach_it(place: Path, tmp_path: Path, trick: str) -> None:
    folder = Path(shim.folder_in(str(place)))
    (place / "real").mkdir(mode=0o700)
    if trick == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif trick == "a link":
        folder.symlink_to(place / "real")
    else:
        folder.touch()
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is None
    assert not folder.is_dir() or list(folder.iterdir()) == []


def test_what_dead_runs_left_is_removed_and_a_link_is_not_followed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shim.folder_in(str(place)))
    folder.mkdir(mode=0o700)
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (folder / "4194999.0").symlink_to(kept)
    (folder / f"{os.getppid()}.0").touch()
    monkeypatch.setattr(run_socket, "_numbers", iter([7]))
    (folder / f"{os.getpid()}.7.new").symlink_to(kept)
    (folder / f"{os.getpid()}.7").symlink_to(kept)
    with RunSocket.open(Desk(run_at(tmp_path / "store", Mode.RECORD))) as served:
        assert served is not None
        assert {path.name for path in folder.iterdir()} == {f"{os.getpid()}.7", f"{os.getppid()}.0"}
        assert not Path(served.path).is_symlink()
    assert kept.read_text() == "mine"
