"""A proxy that lets nobody through but to the gateway, and notes where the others wanted to go.

In replay a command's proxy variables point here: whatever goes around the gateway is seen and named. Some
clients ask a proxy for this machine, too, whatever ``NO_PROXY`` says; those are led to the gateway.
"""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Final

from cortex_replay.hosts import LOCAL, host_of, normal_host

__all__ = ["guarding"]

_TARGET: Final = re.compile(rb"([A-Z]+) (?:([a-z]+)://)?(?:[^/@\s]*@)?([^/\s]+)")
_ANSWER: Final = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 62\r\n\r\n"
    b"cortex-replay: no call leaves while recordings are replayed.\r\n"
)
_PATIENCE_S: Final = 2.0
_MOST_HEAD_BYTES: Final = 128 * 1024


class _Handler(socketserver.BaseRequestHandler):
    server: _Guard
    request: socket.socket

    def handle(self) -> None:
        self.request.settimeout(_PATIENCE_S)
        with contextlib.suppress(OSError):
            data = self.request.recv(65536)
            match = _TARGET.match(data)
            target = _target(match[3]) if match else "somewhere"
            if match is None or target not in self.server.names:
                self.server.noted(target)
                self.request.sendall(_ANSWER)
            elif match[1] == b"CONNECT":
                self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._lead(b"")
            else:
                head, found, rest = self._read_head(data).partition(b"\r\n\r\n")
                self._lead(_for_a_server(match, head) + found + rest)

    def _read_head(self, data: bytes) -> bytes:
        while b"\r\n\r\n" not in data and len(data) < _MOST_HEAD_BYTES and (more := self.request.recv(65536)):
            data += more
        return data

    def _lead(self, first: bytes) -> None:
        """Carry bytes between the client and the gateway until one of them ends."""
        host, _, port = self.server.gateway.rpartition(":")
        self.request.settimeout(None)
        with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as gateway:
            gateway.settimeout(None)
            if first:
                gateway.sendall(first)
            back = threading.Thread(target=_carry, args=(gateway, self.request), daemon=True)
            back.start()
            _carry(self.request, gateway)
            back.join()


def _target(authority: bytes) -> str:
    """Where a request wants to go, in one form: a host, and its port if it names one."""
    host, colon, port = authority.decode("latin-1")[:300].rpartition(":")
    if not colon or not port.isdecimal():
        return host_of(authority.decode("latin-1")[:300])[:200]
    return f"{normal_host(host)[:200]}:{int(port)}"


def _for_a_server(first: re.Match[bytes], head: bytes) -> bytes:
    """A head in the form for servers, for one request only: the next one may be for somebody else."""
    line, *lines = head.split(b"\r\n")
    target = line[first.end() :]
    kept = [one for one in lines if not one.lower().startswith((b"connection:", b"proxy-"))]
    path = target if target.startswith(b"/") else b"/" + target
    return b"\r\n".join([first[1] + b" " + path, *kept, b"connection: close"])


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class _Guard(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, gateway: str, noted: Callable[[str], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway = gateway
        host, _, port = gateway.rpartition(":")
        hosts = LOCAL if normal_host(host) in LOCAL else {normal_host(host)}
        self.names = frozenset(f"{name}:{port}" for name in hosts)
        self.noted = noted


@contextlib.contextmanager
def guarding(gateway: str, noted: Callable[[str], None]) -> Iterator[str]:
    """The URL of the proxy.

    Args:
        gateway: The one host, with its port, that can be reached through it.
        noted: Is told each other host that somebody asks for.
    """
    with _Guard(gateway, noted) as guard:
        thread = threading.Thread(target=guard.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{guard.server_address[1]}"
        finally:
            guard.shutdown()
            thread.join()
