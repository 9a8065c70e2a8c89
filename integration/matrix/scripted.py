"""A server in the shape of providers that no program here can be: Gemini, Bedrock, Cohere, Groq.

It says the same as the tiny model says: a sentence, a call of a tool for ``#tool``, JSON for ``#json``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

__all__ = ["start_scripted"]

_WORDS: Final = ("Hello", " from", " the", " scripted", " server.")
_JSON: Final = ('{"answer":', " 42,", ' "ok": ', "true}")
_CITY: Final = {"city": "Paris"}

Event = dict[str, Any]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        asked = self.rfile.read(length) if length else self._read_chunks()
        path = self.path.partition("?")[0]
        text = asked.decode()
        pieces = _JSON if "#json" in text else _WORDS
        calls = "#tool" in text
        if path.endswith("/chat/completions"):
            self._answer(_chat(pieces, calls, json.loads(text).get("stream")))
        elif path.endswith("/v2/chat"):
            self._answer(_cohere(pieces, calls, json.loads(text).get("stream")))
        elif path.endswith(":streamGenerateContent"):
            self._answer(("text/event-stream", _sse(_gemini(pieces, calls))))
        elif path.endswith(":generateContent"):
            self._answer(("application/json", json.dumps(_whole_gemini(pieces, calls)).encode()))
        elif path.endswith("/converse-stream"):
            self._answer(("application/vnd.amazon.eventstream", b"".join(_converse_stream(pieces, calls))))
        elif path.endswith("/converse"):
            self._answer(("application/json", json.dumps(_converse(pieces, calls)).encode()))
        else:
            self._answer(("application/json", b'{"error": {"message": "no such path"}}'), 404)

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _answer(self, answer: tuple[str, bytes], status: int = 200) -> None:
        media_type, body = answer
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def _sse(events: list[Event], *, names: str | None = None, end: bytes = b"") -> bytes:
    def lines(event: Event) -> bytes:
        name = f"event: {event[names]}\n".encode() if names else b""
        return name + b"data: " + json.dumps(event).encode() + b"\n\n"

    return b"".join(map(lines, events)) + end


def _chat(pieces: tuple[str, ...], calls: bool, stream: object) -> tuple[str, bytes]:
    head = {"id": "chatcmpl-1", "created": 1, "model": "scripted"}
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": json.dumps(_CITY)},
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    reason = "tool_calls" if calls else "stop"
    if not stream:
        message: Event = {"role": "assistant", "content": None if calls else "".join(pieces)}
        message |= {"tool_calls": [call]} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    deltas: list[Event] = (
        [{"tool_calls": [{"index": 0, **call}]}] if calls else [{"content": one} for one in pieces]
    )
    choices: list[Event] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events = [{**head, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    events[-1]["usage"] = usage
    return "text/event-stream", _sse(events, end=b"data: [DONE]\n\n")


def _cohere(pieces: tuple[str, ...], calls: bool, stream: object) -> tuple[str, bytes]:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": json.dumps(_CITY)},
    }
    reason = "TOOL_CALL" if calls else "COMPLETE"
    usage = {"tokens": {"input_tokens": 5, "output_tokens": 5}}
    if not stream:
        content: Event = (
            {"tool_calls": [call]} if calls else {"content": [{"type": "text", "text": "".join(pieces)}]}
        )
        whole = {
            "id": "1",
            "message": {"role": "assistant", **content},
            "finish_reason": reason,
            "usage": usage,
        }
        return "application/json", json.dumps(whole).encode()
    events: list[Event] = [{"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}}]
    events.append(
        {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}
    )
    events += [
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": one}}}}
        for one in pieces
    ]
    events.append({"type": "content-end", "index": 0})
    events.append({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
    return "text/event-stream", _sse(events, names="type")


def _gemini(pieces: tuple[str, ...], calls: bool) -> list[Event]:
    parts: list[Event] = [{"text": one} for one in pieces]
    if calls:
        parts = [{"functionCall": {"name": "get_weather", "args": _CITY}}]
    events: list[Event] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
    ]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}
    return [
        {**event, "usageMetadata": usage, "modelVersion": "scripted", "responseId": "1"} for event in events
    ]


def _whole_gemini(pieces: tuple[str, ...], calls: bool) -> Event:
    [whole] = _gemini(("".join(pieces),), calls)
    return whole


def _converse(pieces: tuple[str, ...], calls: bool) -> Event:
    block: Event = {"text": "".join(pieces)}
    if calls:
        block = {"toolUse": {"toolUseId": "call_1", "name": "get_weather", "input": _CITY}}
    return {
        "output": {"message": {"role": "assistant", "content": [block]}},
        "stopReason": "tool_use" if calls else "end_turn",
        "usage": {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10},
        "metrics": {"latencyMs": 1},
    }


def _converse_stream(pieces: tuple[str, ...], calls: bool) -> Iterator[bytes]:
    yield _frame("messageStart", {"role": "assistant"})
    if calls:
        start = {"toolUse": {"toolUseId": "call_1", "name": "get_weather"}}
        yield _frame("contentBlockStart", {"contentBlockIndex": 0, "start": start})
    deltas: list[Event] = [{"text": one} for one in pieces]
    for delta in [{"toolUse": {"input": json.dumps(_CITY)}}] if calls else deltas:
        yield _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta})
    yield _frame("contentBlockStop", {"contentBlockIndex": 0})
    yield _frame("messageStop", {"stopReason": "tool_use" if calls else "end_turn"})
    usage = {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10}
    yield _frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def _frame(kind: str, payload: Event) -> bytes:
    """An event of Amazon's event stream: lengths, a checksum, headers, the payload, a checksum."""
    headers = b""
    for name, value in (
        (":event-type", kind),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ):
        headers += (
            bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        )
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


@contextmanager
def start_scripted() -> Iterator[int]:
    """The server's port, until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
