"""A proxy that lets nobody through, and notes where they wanted to go.

In replay a command's proxy variables point here: whatever goes around the gateway is seen and named.
"""

from __future__ import annotations

import contextlib
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["guarding"]

_TARGET: Final = re.compile(rb"[A-Z]+ (?:[a-z]+://)?(?:[^/@\s]*@)?([^/\s]+)")
_ANSWER: Final = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 62\r\n\r\n"
    b"cortex-replay: no call leaves while recordings are replayed.\r\n"
)


class _Handler(socketserver.BaseRequestHandler):
    server: _Guard

    def handle(self) -> None:
        self.request.settimeout(2)
        with contextlib.suppress(OSError):
            line = self.request.recv(4096)
            match = _TARGET.match(line)
            self.server.noted(match[1].decode("latin-1")[:200] if match else "somewhere")
            self.request.sendall(_ANSWER)


class _Guard(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, noted: Callable[[str], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.noted = noted


@contextlib.contextmanager
def guarding(noted: Callable[[str], None]) -> Iterator[str]:
    """The URL of the proxy; ``noted`` is told each host that somebody asks it for."""
    with _Guard(noted) as guard:
        thread = threading.Thread(target=guard.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{guard.server_address[1]}"
        finally:
            guard.shutdown()
            thread.join()
