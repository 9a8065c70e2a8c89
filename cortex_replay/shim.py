"""The small half of ``cortex-replay mcp``: it finds the process that has the run, hands over its standard
streams, and waits.

A client starts it once for every server, so it has to start as fast as Python itself. It imports nothing of
this package, and of the standard library only what is there already or written in C: ``socket``, ``re`` and
``typing`` each take a third of the time that an empty program takes.

A run listens at ``FOLDER/PID.N``, in a folder of the user's alone. The variable ``CORTEX_REPLAY_MCP`` holds
the socket's path. Clients that hide their environment from servers are found by their ancestors.
What goes over the socket:

* to the run, eight bytes (:data:`MAGIC` and the length of the rest) with three descriptors, then texts with a
  NUL between them: name of the server, scope, folder, number of words, the words of the command, the
  environment. The end of the stream ends the session.
* from the run, lines: ``+N`` and ``-N`` (a server runs in process group N; it has ended), ``=N`` (the session
  is over, with this status), ``?`` (this client is not for this run), ``@PATH``, NUL, ``SCOPE`` (it is for
  another one).
"""

import _signal  # type: ignore[import-not-found]
import _socket
import os
import stat
import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "MAGIC",
    "VARIABLE",
    "Invocation",
    "find_run",
    "folder_in",
    "follow",
    "hand_over",
    "is_private",
    "peer_user",
    "places",
    "read_arguments",
    "serve",
]

VARIABLE = "CORTEX_REPLAY_MCP"
"""Holds the path of a run's socket."""
MAGIC = b"crm1"
_WITH_VALUE = ("--store", "--trust", "--mode", "--scope")
_GRACE_S = 2.0
_LOOK_S = 0.02


class Invocation:
    """What a client asks for: a server by its name, and the command that starts it."""

    __slots__ = ("command", "name", "scope")

    def __init__(self, name: str, command: "list[str]", scope: str) -> None:
        self.name = name
        self.command = command
        self.scope = scope


def read_arguments(arguments: "Sequence[str]") -> "Invocation | None":
    """What ``mcp NAME -- SERVER ...`` asks for; ``None`` for all else, also for what is wrong with it: the
    whole program tells that better."""
    if "--" not in arguments or "mcp" not in arguments:
        return None
    end = arguments.index("--")
    words = []
    scope = ""
    given = iter(arguments[:end])
    for word in given:
        name, equals, value = word.partition("=")
        if name in _WITH_VALUE:
            value = value if equals else next(given, "")
            scope = value if name == "--scope" else scope
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    command = list(arguments[end + 1 :])
    return Invocation(words[1], command, scope) if len(words) == 2 and words[0] == "mcp" and command else None


# Where runs are found


def places() -> "list[str]":
    """The folders in which the folder of runs may stand, the best first. They depend on nothing that a client
    may hide."""
    return [f"/run/user/{os.geteuid()}", "/tmp"]  # noqa: S108 - what stands there is checked


def folder_in(place: str) -> str:
    """The folder of this user's runs; short, since the path of a socket may have 100 bytes."""
    return f"{place}/cortex-replay-{os.geteuid()}"


def is_private(folder: str) -> bool:
    """Whether it is a folder, no link, and only this user can look into it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_closed = not stat.S_IMODE(status.st_mode) & 0o077
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_closed


def find_run() -> "Iterator[_socket.socket]":
    """Connections to the run that the environment names, or to those that this process descends from, the
    nearest first.

    Raises:
        OSError: The environment names a run that cannot be reached.
    """
    if not hasattr(_socket, "AF_UNIX"):
        return
    named = os.environ.get(VARIABLE)
    if named:
        connection = _connect(named)
        if connection is None:
            raise OSError(f"{VARIABLE} names a run that has ended, or is another user's: {named!r}")
        yield connection
        return
    listening = _sockets()
    for ancestor in _ancestors() if listening else ():
        for _, path in sorted(listening.get(str(ancestor), ()), reverse=True):  # the innermost first
            connection = _connect(path)
            if connection is not None:
                yield connection


def _sockets() -> "dict[str, list[tuple[int, str]]]":
    """Where runs of this user listen, by the ids of their processes."""
    found: dict[str, list[tuple[int, str]]] = {}
    for place in places():
        folder = folder_in(place)
        for name in os.listdir(folder) if is_private(folder) else ():
            process, _, number = name.partition(".")
            if number.isdecimal():
                found.setdefault(process, []).append((int(number), f"{folder}/{name}"))
    return found


def _connect(path: str) -> "_socket.socket | None":
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        if peer_user(connection) == os.geteuid():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def peer_user(connection: "_socket.socket") -> int:
    """The user at the other end of a connection; -1 where the system does not say."""
    if hasattr(_socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[4:8], sys.byteorder)
    if sys.platform == "darwin":
        credentials = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED
        return int.from_bytes(credentials[4:8], sys.byteorder)
    return -1


def _ancestors() -> "Iterator[int]":
    parent = os.getppid()
    if not os.path.exists("/proc/self/stat"):
        yield from _ancestors_by_ps(parent)
        return
    while parent > 1:
        yield parent
        try:
            with open(f"/proc/{parent}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # it has just ended
            return


def _ancestors_by_ps(parent: int) -> "Iterator[int]":
    """Where there is no ``/proc``."""
    from subprocess import run  # noqa: PLC0415 - it takes as long to load as all else here

    listed = run(["/bin/ps", "-axo", "pid=,ppid="], capture_output=True, check=False).stdout.split()
    parents = dict(zip(map(int, listed[::2]), map(int, listed[1::2]), strict=False))
    while parent > 1:
        yield parent
        parent = parents.get(parent, 0)


# What is said to a run


def hand_over(connection: "_socket.socket", asked: Invocation, streams: "Sequence[int]" = (0, 1, 2)) -> None:
    """Give a run our streams, and say what is wanted.

    Raises:
        OSError: It has ended.
    """
    try:
        folder = os.getcwdb()
    except OSError:
        folder = b""
    texts = [os.fsencode(asked.name), os.fsencode(asked.scope), folder, str(len(asked.command)).encode()]
    texts += map(os.fsencode, asked.command)
    texts += [name + b"=" + value for name, value in os.environb.items()]
    data = b"\0".join(texts)
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in streams)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
    connection.sendmsg([MAGIC + len(data).to_bytes(4, "big")], rights)
    connection.sendall(data)


def serve(asked: Invocation) -> "int | None":
    """Let the run that this process is a part of serve its client; ``None`` if there is none.

    Raises:
        OSError: The run cannot be reached.
    """
    for found in find_run():
        status = _serve_at(found, asked)
        if isinstance(status, bytes):
            path, _, scope = status.partition(b"\0")
            asked = Invocation(asked.name, asked.command, asked.scope or os.fsdecode(scope))
            other = _connect(os.fsdecode(path))
            status = None if other is None else _serve_at(other, asked)
            if not isinstance(status, int):
                raise OSError("the run that these tests are a part of has ended")
        if status is not None:
            return status
    return None


def _serve_at(connection: "_socket.socket", asked: Invocation) -> "int | bytes | None":
    try:
        hand_over(connection, asked)
        return follow(connection)
    finally:
        connection.close()


def follow(connection: "_socket.socket") -> "int | bytes | None":
    """Wait for the end of a session; gives its status. ``None`` if it is not for this run, bytes if it is for
    another one.

    A signal ends the session, and it is waited for. Where the run dies, its servers are ended here: no
    other process knows of them.
    """
    ended_by = _end_on_signals(connection)
    groups: set[int] = set()
    pending = b""
    while True:
        try:
            block = connection.recv(4096)
        except OSError:
            block = b""
        if not block:
            _end_groups(groups)
            return 128 + ended_by[0] if ended_by else 1
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            if line == b"?":
                return None
            if line[:1] == b"@":
                return line[1:]
            number = int(line[1:])
            if line[:1] == b"=":
                return 128 + ended_by[0] if ended_by and not number else number
            (groups.add if line[:1] == b"+" else groups.discard)(number)


def _end_on_signals(connection: "_socket.socket") -> "list[int]":
    """Let signals end the session; gives where those are noted that came."""
    ended_by = []

    def end(number: int, _: object) -> None:
        ended_by.append(number)
        _signal.signal(number, _signal.SIG_DFL)  # who sends it twice will not wait
        try:
            connection.shutdown(_socket.SHUT_WR)
        except OSError:
            pass

    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, end)
    return ended_by


def _end_groups(groups: "set[int]") -> None:
    deadline = monotonic() + _GRACE_S
    number = _signal.SIGTERM
    while groups:
        for group in list(groups):
            try:
                os.killpg(group, number if group > 1 else 0)
            except OSError:
                groups.discard(group)
        if number == _signal.SIGKILL:
            return
        number = _signal.SIGKILL if monotonic() > deadline else 0
        sleep(_LOOK_S)
