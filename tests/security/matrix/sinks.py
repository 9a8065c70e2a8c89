"""Servers that write down every byte they get: one that the user chose, one that belongs to the thief."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Final, Self

__all__ = ["Sink", "own_address"]

_ANSWER: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Answer."}}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


def own_address() -> str | None:
    """An address of this machine that is not loopback: for a client, a server somewhere else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # sends nothing
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


class Sink:
    """Accepts every connection, keeps what it says, and answers as a model would."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._listener = socket.create_server((host, 0))
        self.host, self.port = host, int(self._listener.getsockname()[1])
        self.url = f"http://{host}:{self.port}"
        self._received: list[tuple[bytearray, threading.Thread]] = []
        self._accepted: set[tuple[str, int]] = set()
        self._lock = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def drain(self) -> list[bytes]:
        """What each connection since the last time has sent; one that was silent counts.

        Connections are accepted in their order, so those before one of our own are all there with it; and
        each is read to its end, which comes with that of the program that made it.
        """
        with socket.create_connection((self.host, self.port)) as own:
            address = own.getsockname()[:2]
            with self._lock:
                self._lock.wait_for(lambda: address in self._accepted, timeout=30)
                self._accepted.clear()
                taken, self._received = self._received[:-1], []
        for _, reader in taken:
            reader.join()
        return [bytes(kept) for kept, _ in taken]

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            kept = bytearray()
            reader = threading.Thread(target=self._serve, args=(connection, kept), daemon=True)
            reader.start()
            with self._lock:
                self._received.append((kept, reader))
                self._accepted.add(address[:2])
                self._lock.notify_all()

    @staticmethod
    def _serve(connection: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(5)
            while True:
                start = len(kept)
                while b"\r\n\r\n" not in kept[start:]:
                    if not (piece := connection.recv(65536)):
                        return
                    kept += piece
                head, _, body = bytes(kept[start:]).partition(b"\r\n\r\n")
                length = _content_length(head)
                while len(body) < length:
                    if not (piece := connection.recv(65536)):
                        return
                    kept += piece
                    body += piece
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%b" % (len(_ANSWER), _ANSWER)
                )


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0
