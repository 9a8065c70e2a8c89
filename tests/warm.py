"""The program, as a fork of one that has loaded it: a test waits for what it does, not for 500 modules.

A server without threads loads the package once for each worker of a run, and forks for each start, so that a
process has its own environment, folder, streams, signals and status, as one that was executed has. Tests of
how the program starts, and of what it loads, execute it; so does what sets variables that Python reads then.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

__all__ = ["PROGRAM", "run", "start"]

PROGRAM: Final = Path(sys.executable).with_name("cortex-replay")
_ROOT: Final = Path(__file__).parents[1]
_LENGTH: Final = struct.Struct("!I")
_NUMBER: Final = struct.Struct("!i")
_LEFT_OUT: Final = ("cortex_replay.pytest_plugin", "cortex_replay.testing", "cortex_replay.__main__")
_READ_AT_START: Final = ("PYTHON", "LC_", "COVERAGE_")
_EXECUTED: Final = ("preexec_fn", "pass_fds", "process_group", "user", "group", "umask", "executable")
"""What a fork does not do."""


def start(arguments: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start the program.

    Args:
        arguments: What stands behind its name.
        **options: Those of :class:`subprocess.Popen`.
    """
    command = [str(PROGRAM), *arguments]
    environment: Mapping[str, str] = options.get("env") or os.environ
    is_of_python = any(value and name.startswith(_READ_AT_START) for name, value in environment.items())
    if is_of_python or not hasattr(os, "fork") or any(name in options for name in _EXECUTED):
        return subprocess.Popen(command, **options)
    return _Fork(command, **options)


def run(
    arguments: list[str], given: str | bytes | None = None, *, timeout: float = 300, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run the program to its end, with something to read or without; what it says is kept."""
    streams = dict.fromkeys(["stdout", "stderr", *(["stdin"] if given is not None else [])], subprocess.PIPE)
    with start(arguments, **streams, **options) as process:
        try:
            out, talk = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, talk)


class _Fork(subprocess.Popen[Any]):
    """A process whose parent is the server, which tells of its end."""

    _ended: int

    def _execute_child(self, *given: Any) -> None:
        names = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
        asked = dict(zip(names, given, strict=True))
        self._ended, tell = os.pipe()
        pipes = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        streams = [usual if own == -1 else own for usual, own in enumerate(pipes)]
        message = {
            "argv": list(asked["args"]),
            "cwd": os.fspath(asked["cwd"] or Path.cwd()),
            "env": dict(asked["env"] or os.environ),
            "is_new_session": bool(asked["start_new_session"]),
        }
        try:
            self.pid = _server().ask(message, [*streams, tell])
        finally:
            os.close(tell)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in ends))  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._status(0)

    def _wait(self, timeout: float | None) -> int:
        status = self._status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def _status(self, timeout: float | None) -> int | None:
        with _ENDING:
            if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
                told = os.read(self._ended, _NUMBER.size)
                os.close(self._ended)
                self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(told)[0])
        return self.returncode


_ENDING: Final = threading.RLock()


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._turn = threading.Lock()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        command = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=_ROOT, env=kept, pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self.close)

    def ask(self, message: object, descriptors: list[int]) -> int:
        """The number of a new process."""
        body = json.dumps(message).encode()
        with self._turn:
            socket.send_fds(self._control, [_LENGTH.pack(len(body))], descriptors)
            self._control.sendall(body)
            return int(_NUMBER.unpack(_take(self._control, _NUMBER.size))[0])

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


def _take(connection: socket.socket, size: int) -> bytes:
    taken = b""
    while len(taken) < size:
        piece = connection.recv(size - len(taken))
        if not piece:
            raise EOFError
        taken += piece
    return taken


def _serve(control: socket.socket) -> None:
    """Fork for each request; returns in each fork, which is then the program, or ends with the test run."""
    children: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_ends(children)
        if control.fileno() in ready:
            size, descriptors, _, _ = socket.recv_fds(control, _LENGTH.size, 4)
            if not size:
                os._exit(0)
            asked = json.loads(_take(control, _LENGTH.unpack(size)[0]))
            *streams, tell = descriptors
            pid = os.fork()
            if pid == 0:
                control.detach()
                _become(asked, streams)
                return
            children[pid] = tell
            for descriptor in streams:
                os.close(descriptor)
            control.sendall(_NUMBER.pack(pid))


def _tell_of_ends(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        tell = children.pop(pid)
        with suppress(BrokenPipeError):  # a test that has ended asks no more
            os.write(tell, _NUMBER.pack(status))
        os.close(tell)


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    """Be the process that was asked for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(streams) + 64)
    if asked["is_new_session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    sys.argv[:] = asked["argv"]
    sys.path[0] = str(PROGRAM.parent)
    sys.stdin = open(0, encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115 - for good
    sys.stdout = open(1, "w", encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _load() -> None:
    import cortex_replay  # noqa: PLC0415 - the side of tests does without

    for module in pkgutil.walk_packages(cortex_replay.__path__, "cortex_replay."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _main() -> NoReturn:
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from cortex_replay.cli.entry import main  # noqa: PLC0415 - as the installed script does

    try:
        status: object = main()
    except SystemExit as error:
        status = error.code
    _end(status)


def _end(status: object) -> NoReturn:
    """End as Python does, but take apart nothing of what was loaded: most commands take less time than that.

    What cannot be written at the end, and a status that is a text, is left to Python.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if status is None or isinstance(status, int):
            os._exit(status or 0)
    sys.exit(status)  # type: ignore[arg-type]


if __name__ == "__main__":
    _main()
