"""A server that speaks Gemini's, Bedrock's and Cohere's wires, as far as their SDKs read them.

None of the real ones runs here: this shows that the SDKs take what is recorded and replayed, and not what the
services answer. No two of its answers are equal, so whoever asks it again gets another one.
"""

from __future__ import annotations

import binascii
import itertools
import json
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

__all__ = ["WireServer", "event_message", "start_wire_server"]

_COUNT: Final = itertools.count(1)


def event_message(kind: str, payload: Any) -> bytes:
    """One message of an event stream of AWS: two lengths, headers, a payload and two checksums."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in named.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + body
    return message + struct.pack(">I", binascii.crc32(message))


def _sse(documents: Iterable[Any], *, named: bool = False) -> Iterator[bytes]:
    for document in documents:
        name = f"event: {document['type']}\n" if named else ""
        yield f"{name}data: {json.dumps(document)}\n\n".encode()


def _gemini(text: str) -> Any:
    content = {"role": "model", "parts": [{"text": text}]}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


def _converse(text: str) -> Any:
    message = {"role": "assistant", "content": [{"text": text}]}
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    return {
        "output": {"message": message},
        "stopReason": "end_turn",
        "usage": usage,
        "metrics": {"latencyMs": 1},
    }


def _converse_stream(words: list[str]) -> Iterator[bytes]:
    yield event_message("messageStart", {"role": "assistant"})
    for word in words:
        yield event_message("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}})
    yield event_message("contentBlockStop", {"contentBlockIndex": 0})
    yield event_message("messageStop", {"stopReason": "end_turn"})
    usage = {"inputTokens": 3, "outputTokens": len(words), "totalTokens": 3 + len(words)}
    yield event_message("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def _cohere(text: str) -> Any:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"id": "c-1", "finish_reason": "COMPLETE", "message": message}


def _cohere_stream(words: list[str]) -> Iterator[bytes]:
    start = {"type": "message-start", "id": "c-1", "delta": {"message": {"role": "assistant"}}}
    yield from _sse([start], named=True)
    for word in words:
        delta = {"message": {"content": {"text": word}}}
        yield from _sse([{"type": "content-delta", "index": 0, "delta": delta}], named=True)
    yield from _sse(
        [{"type": "message-end", "id": "c-1", "delta": {"finish_reason": "COMPLETE"}}], named=True
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        words = ["Answer ", "number ", f"{next(_COUNT)}."]
        text = "".join(words)
        path = self.path.partition("?")[0]
        self.server.asked.append(path)  # type: ignore[attr-defined]
        if path.endswith(":generateContent"):
            self._whole(_gemini(text))
        elif path.endswith(":streamGenerateContent"):
            self._stream("text/event-stream", _sse(map(_gemini, words)))
        elif path.endswith("/converse"):
            self._whole(_converse(text))
        elif path.endswith("/converse-stream"):
            self._stream("application/vnd.amazon.eventstream", _converse_stream(words))
        elif path.endswith("/v2/chat") and body.get("stream"):
            self._stream("text/event-stream", _cohere_stream(words))
        elif path.endswith("/v2/chat"):
            self._whole(_cohere(text))
        else:
            self.send_error(404)

    def _whole(self, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, content_type: str, pieces: Iterable[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Nothing is to be read there."""


class WireServer(ThreadingHTTPServer):
    """Answers, and notes the paths that it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def start_wire_server() -> Iterator[WireServer]:
    """The server, until the block ends."""
    with WireServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
