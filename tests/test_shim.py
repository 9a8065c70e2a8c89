"""The small half of ``cortex-replay mcp``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cortex_replay import shim
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs sockets of Unix")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where runs are found; with a short name."""
    monkeypatch.delenv(shim.VARIABLE, raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(shim, "places", lambda: [folder])
        yield Path(folder)


def listen(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def run_of(place: Path, process: int, number: int = 0) -> Path:
    return Path(shim.folder_in(str(place))) / f"{process}.{number}"


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("mcp files -- npx server .", ("files", ["npx", "server", "."], "")),
        ("mcp files --mode once -- npx", ("files", ["npx"], "")),
        ("mcp --mode=once --store x files -- npx", ("files", ["npx"], "")),
        (
            "--store x --trust a=b mcp files --scope s -- npx --scope t",
            ("files", ["npx", "--scope", "t"], "s"),
        ),
        ("mcp mcp -- mcp -- x", ("mcp", ["mcp", "--", "x"], "")),
        ("mcp check files -- npx", None),
        ("mcp files", None),
        ("mcp files --", None),
        ("mcp -- npx", None),
        ("mcp --help files -- npx", None),
        ("mcp --mode -- npx", None),
        ("record -- mcp files", None),
        ("record mcp -- files", None),
    ],
)
def test_what_a_client_asks_for(line: str, asked: tuple[str, list[str], str] | None) -> None:
    found = shim.read_arguments(line.split())

    assert (None if found is None else (found.name, found.command, found.scope)) == asked


def test_it_loads_nothing_that_is_slow() -> None:
    """Neither of this package nor of the standard library: a client waits for it."""
    program = "import sys; before = set(sys.modules); import cortex_replay.cli.entry, cortex_replay.shim\n"
    program += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    ours = {"cortex_replay", "cortex_replay.cli", "cortex_replay.cli.entry", "cortex_replay.shim"}
    assert set(done.stdout.split()) <= ours | {"_signal", "gc", "_socket", "time"}


def test_the_nearest_ancestor_that_has_a_run_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of its runs the innermost."""
    runs = [run_of(place, 30, 10), run_of(place, 30, 9), run_of(place, 10)]
    with ExitStack() as stack:
        for path in (*runs, run_of(place, 99), run_of(place, 20).with_suffix(".new")):
            stack.enter_context(listen(path))
        monkeypatch.setattr(shim, "_ancestors", lambda: iter([40, 30, 20, 10]))
        found = list(shim.find_run())

    assert [one.getpeername() for one in found] == [str(path) for path in runs]
    for one in found:
        one.close()


def test_the_ancestors_of_a_process_are_its_own() -> None:
    program = "import os; from cortex_replay.shim import _ancestors; print(os.getppid(), *_ancestors())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    parent, *ancestors = map(int, done.stdout.split())

    assert ancestors[:2] == [parent, os.getppid()]
    assert parent == os.getpid()
    assert list(shim._ancestors_by_ps(os.getppid())) == list(shim._ancestors())


def test_the_run_that_the_environment_names_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "_ancestors", lambda: iter([30]))
    monkeypatch.setenv(shim.VARIABLE, str(run_of(place, 10)))
    with listen(run_of(place, 30)), listen(run_of(place, 10)):
        [found] = shim.find_run()
        assert found.getpeername() == str(run_of(place, 10))
        found.close()


def test_a_run_that_is_named_and_has_ended_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on without it might start a server that was only to be replayed."""
    listen(run_of(place, 10)).close()
    monkeypatch.setenv(shim.VARIABLE, str(run_of(place, 10)))

    with pytest.raises(OSError, match="CORTEX_REPLAY_MCP names a run that has ended"):
        list(shim.find_run())


def test_a_run_of_another_user_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "_ancestors", lambda: iter([10]))
    monkeypatch.setattr(shim, "peer_user", lambda _: os.geteuid() + 1)
    with listen(run_of(place, 10)):
        assert list(shim.find_run()) == []


@pytest.mark.parametrize("trick", ["open to others", "a link", "another's"])
def test_a_folder_that_others_may_have_filled_is_not_looked_into(
    place: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    monkeypatch.setattr(shim, "_ancestors", lambda: iter([10]))
    folder = Path(shim.folder_in(str(place)))
    if trick == "a link":
        folder.symlink_to(place / "real")
        (place / "real").mkdir(mode=0o700)
    with listen(run_of(place, 10)):
        if trick == "open to others":
            folder.chmod(0o770)
        if trick == "another's":
            user = os.geteuid()
            monkeypatch.setattr(shim, "folder_in", lambda _: str(folder))
            monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        assert list(shim.find_run()) == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"=0\n", 0),
        (b"+4000001\n-4000001\n=3\n", 3),
        (b"?\n", None),
        (b"@/a/b\0scope\n", b"/a/b\0scope"),
        (b"", 1),
        (b"=", 1),
    ],
)
def test_what_the_run_says_is_the_status(said: bytes, status: int | bytes | None) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(said)
        theirs.close()
        assert shim.follow(ours) == status


def test_servers_of_a_run_that_dies_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "_GRACE_S", 0)  # nobody asks for its status before this test does
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    ours, theirs = socket.socketpair()
    theirs.sendall(f"+{server.pid}\n".encode())
    theirs.close()
    with ours:
        assert shim.follow(ours) == 1

    wait_until(lambda: server.poll() is not None)


def test_one_run_may_send_a_client_to_another(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = shim.Invocation("files", ["npx"], "")
    handed: list[tuple[str, str]] = []
    answers = iter([b"?", f"@{run_of(place, 20)}\0a test".encode(), b"=7"])

    def hand_over(connection: socket.socket, asked: shim.Invocation) -> None:
        handed.append((connection.getpeername(), asked.scope))

    monkeypatch.setattr(shim, "_ancestors", lambda: iter([30, 10]))
    monkeypatch.setattr(shim, "hand_over", hand_over)
    monkeypatch.setattr(shim, "follow", lambda _: _meaning(next(answers)))
    with listen(run_of(place, 30)), listen(run_of(place, 10)), listen(run_of(place, 20)):
        assert shim.serve(asked) == 7

    assert handed == [(str(run_of(place, n)), scope) for n, scope in [(30, ""), (10, ""), (20, "a test")]]


def _meaning(line: bytes) -> int | bytes | None:
    return None if line == b"?" else line[1:] if line[:1] == b"@" else int(line[1:])
