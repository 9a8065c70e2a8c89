"""A server that answers at once, in a process of its own, whose time nobody counts.

It speaks the Messages API and chat completions, as far as their clients look. The request says what
it wants: ``max_tokens`` is the number of pieces in the answer, and the model says how a stream is
written. ``bench-each``: each event for itself, as an HTTP chunk and a packet of its own, as fast as that
goes. ``bench-many``: many at once. ``bench-alone``: each once the one before has been read.

Run as a program, it writes its port, and ends with its input.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

__all__ = ["EVENTS_AT_ONCE"]

EVENTS_AT_ONCE = 50

_TIME_TO_READ_S = 0.0003
_PIECES = (" the", " of", " answer", " is", " that", " some", " words", ",", " then", " more", ".", " Größe")
_END = b"0\r\n\r\n"


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as incoming, contextlib.suppress(ConnectionError):
        while (request := _request(incoming)) is not None:
            path, body = request
            is_chat = path.endswith("/chat/completions")
            way, count = body["model"], body["max_tokens"]
            if not body.get("stream"):
                connection.sendall(_whole(is_chat, way, count))
                continue
            for piece in _stream(is_chat, way, count):
                connection.sendall(piece)
                if way == "bench-alone":
                    time.sleep(_TIME_TO_READ_S)


def _request(incoming: Any) -> tuple[str, dict[str, Any]] | None:
    head = incoming.readline().split()
    if not head:
        return None
    length = 0
    while line := incoming.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head[1].decode(), json.loads(incoming.read(length))


@lru_cache
def _whole(is_chat: bool, model: str, count: int) -> bytes:
    text = "".join(_pieces(count))
    if is_chat:
        message = {"role": "assistant", "content": text}
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1763164800,
            "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 900, "completion_tokens": count, "total_tokens": 900 + count},
        }
    else:
        answer = _message(model) | {
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 900, "output_tokens": count},
        }
    body = _json(answer)
    return _head(b"application/json", b"content-length: %d" % len(body)) + body


@lru_cache
def _stream(is_chat: bool, model: str, count: int) -> list[bytes]:
    """What is written, write by write."""
    events = list(_chat_events(model, count) if is_chat else _message_events(model, count))
    size = EVENTS_AT_ONCE if model == "bench-many" else 1
    writes = [b"".join(events[i : i + size]) for i in range(0, len(events), size)]
    head = _head(b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked")
    return [head, *(b"%x\r\n%b\r\n" % (len(data), data) for data in writes), _END]


def _message_events(model: str, count: int) -> Iterator[bytes]:
    block = {"type": "text", "text": ""}
    yield _event({"type": "message_start", "message": _message(model)})
    yield _event({"type": "content_block_start", "index": 0, "content_block": block})
    yield _event({"type": "ping"})
    for text in _pieces(count):
        delta = {"type": "text_delta", "text": text}
        yield _event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _event({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": count}})
    yield _event({"type": "message_stop"})


def _chat_events(model: str, count: int) -> Iterator[bytes]:
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text} for text in _pieces(count)]
    for delta in [*deltas, {}]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None if delta else "stop"}
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1763164800,
            "model": model,
            "system_fingerprint": "fp_1",
            "choices": [choice],
        }
        yield b"data: %b\n\n" % _json(chunk)
    yield b"data: [DONE]\n\n"


def _message(model: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 1},
    }


def _pieces(count: int) -> Iterable[str]:
    return (_PIECES[i % len(_PIECES)] for i in range(count))


def _head(media_type: bytes, framing: bytes) -> bytes:
    """As many headers as a real server sends."""
    lines = [
        b"HTTP/1.1 200 OK",
        b"date: Sat, 15 Nov 2026 00:00:00 GMT",
        b"content-type: " + media_type,
        framing,
        b"connection: keep-alive",
        b"cache-control: no-cache",
        b"request-id: req_1",
        b"strict-transport-security: max-age=31536000; includeSubDomains; preload",
        b"server: bench",
    ]
    return b"\r\n".join([*lines, b"", b""])


def _event(document: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), _json(document))


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
