"""A model server that never says the same twice, and counts who asked what."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

__all__ = ["MODEL", "Upstream", "start_upstream"]

MODEL: Final = "counting-1"


@dataclass(slots=True)
class Upstream:
    """What was asked, in order: by whom, and the question. An answer tells its place in that order."""

    url: str
    calls: list[tuple[str, str]] = field(default_factory=list)
    when_asked: dict[int, Callable[[str], None]] = field(default_factory=dict)
    """What to do, by the number of a call, before it is answered; it is told who asks."""
    when_answered: dict[int, Callable[[str], None]] = field(default_factory=dict)
    """The same, when the answer is on its way."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, worker: str, question: str) -> int:
        """Count a call; its number."""
        with self._lock:
            self.calls.append((worker, question))
            return len(self.calls)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    upstream: Upstream


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        worker = self.headers["Authorization"].removeprefix("Bearer ")
        question = body["messages"][-1]["content"]
        upstream = self.server.upstream
        number = upstream.take(worker, question)
        upstream.when_asked.get(number, _do_nothing)(worker)
        text = f"{question} Call {number}."  # not of whom: the key would be cut out of what is recorded
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        answer = {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        upstream.when_answered.get(number, _do_nothing)(worker)

    def log_message(self, *_: object) -> None:
        """Tests read what was asked, not a log of it."""


def _do_nothing(_: str) -> None:
    pass


@contextmanager
def start_upstream() -> Iterator[Upstream]:
    """An OpenAI-compatible server on threads of this process, until the block ends."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.upstream = Upstream(f"http://127.0.0.1:{server.server_port}/v1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.upstream
        finally:
            server.shutdown()
            thread.join()
