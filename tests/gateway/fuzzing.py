"""Requests that nobody meant, and what a server that replays makes of them.

None of them asks what is recorded: whoever gets a recorded answer for one was served wrongly.
"""

from __future__ import annotations

import base64
import json
import re
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from cortex_replay import Store
from cortex_replay.providers import address_at
from cortex_replay.store.fixture import Answer
from cortex_replay.wire import WIRES
from tests.builder import fixture_of
from tests.garbling import garbled

__all__ = ["CRASH", "HANG", "QUESTIONS", "REFUSED", "WRONG", "answer_to", "is_served", "record", "verdict_of"]

REFUSED: Final = "refused"
CRASH: Final = "crashes"
HANG: Final = "hangs"
WRONG: Final = "served wrongly"
QUESTIONS: Final = 8
_INTERNAL: Final = b"internal error"
"""What a client of ours is told of a mistake of ours; its status is that of a miss, lest it ask again."""
_HOST: Final = "the-host"
_PATIENCE_S: Final = 60
_MORE_S: Final = 0.05
"""How long a server that may be waiting for the rest of a request has for a word."""


def _user(question: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": question}]


_BODIES: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "/v1/chat/completions": lambda question: {"model": "m", "messages": _user(question)},
    "/v1/messages": lambda question: {"model": "m", "max_tokens": 9, "messages": _user(question)},
    "/v1/responses": lambda question: {"model": "m", "input": _user(question)},
    "/api/chat": lambda question: {"model": "m", "stream": False, "messages": _user(question)},
    "/v1beta/models/m:generateContent": lambda question: {
        "contents": [{"role": "user", "parts": [{"text": question}]}]
    },
}
_PATHS: Final = (*_BODIES, "/", "/v1/models", "/rpc", "/mcp/x", "//", "/v1/../v1/messages", "/%", "/%00", "*")
_METHODS: Final = ("POST", "POST", "POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "X")
_HEADERS: Final = (
    "content-encoding: gzip",
    "content-type: text/plain; charset=utf-16",
    "content-type: multipart/form-data; boundary=x",
    "content-length: 0",
    "content-length: 99999999999999999999",
    "content-length: -1",
    "transfer-encoding: chunked",
    "transfer-encoding: gzip, chunked",
    "expect: 100-continue",
    "upgrade: websocket",
    "upgrade: h2c",
    "host: ",
    "host: elsewhere.invalid",
    "origin: null",
    "accept: \xff",
    "x-cortex-replay-scope: ../..",
    "range: bytes=5-2",
    f"x-long: {'a' * 9000}",
    "cookie: a=b",
    "x-empty:",
)
_ODD: Final[tuple[Any, ...]] = (
    *(None, True, -0.0, 1e308, 2**63, 2**64, -(10**30), "", "\x00", "\u2028", "a" * 5000, [], {}, [[]]),
    *({"type": "x"}, {"role": "user"}, [{"type": "text"}], {"": {"": ""}}, ["user"]),
)
_NAMES: Final = ("tools", "system", "stream", "temperature", "n", "metadata", "response_format", "thinking")


def answer_to(question: int) -> str:
    """What is recorded for one of the questions, and is part of nothing else."""
    return f"Zanzibar {question} Quetzal"


def text_of(question: int) -> str:
    return f"What is the capital of country {question}?"


def record(root: Path) -> None:
    """A store that knows the questions, asked on every wire."""
    store = Store.create(root)
    for path, body in _BODIES.items():
        address = address_at(path)
        assert address is not None
        for number in range(QUESTIONS):
            document = {**body(text_of(number)), **dict(address.parameters)}
            request = WIRES[address.protocol].lift(document)
            if not store.has_any(store.key(request)):
                store.add(fixture_of(request, Answer(answer_to(number), finish_reason="stop")))
    store.commit()


def is_served(port: int, random: Random, patience: float = _PATIENCE_S) -> bool:
    """Whether a recorded question still gets its answer."""
    number, path = random.randrange(QUESTIONS), random.choice(list(_BODIES))
    asked = _request(path, json.dumps(_BODIES[path](text_of(number))).encode())
    return answer_to(number).encode() in (_said(port, asked, patience, is_whole=True) or b"")


def verdict_of(port: int, random: Random, patience: float = _PATIENCE_S) -> str:
    """Send a request that was not recorded, and say what became of it; nothing says that it was answered.

    Args:
        port: Where the server is.
        random: Makes the request.
        patience: The seconds after which a server that is silent hangs.
    """
    attack = random.choice(_ATTACKS)(random)
    said = _said(port, attack.data, patience, is_whole=attack.is_whole)
    if said is None:
        return HANG
    if any(answer_to(number).encode() in said for number in range(QUESTIONS)):
        return WRONG
    status = re.match(rb"HTTP/1\.[01] (\d)\d\d ", said)
    is_silent = attack.is_whole and status is None
    if is_silent or b"HTTP/1.1 5" in said or _INTERNAL in said:
        return CRASH
    return "" if status is not None and status[1] in b"123" else REFUSED


@dataclass(frozen=True, slots=True)
class _Attack:
    data: bytes
    is_whole: bool = True
    """Whether it is a request to the last byte, so that a server has to say something."""


def _request(path: str, body: bytes, method: str = "POST", *headers: str) -> bytes:
    length = () if any("content-length" in line or "chunked" in line for line in headers) else (len(body),)
    lines = [
        f"{method} {path} HTTP/1.1",
        f"host: {_HOST}",
        "connection: close",
        "authorization: Bearer x",
        "anthropic-version: 2023-06-01",
        "content-type: application/json",
        *(f"content-length: {number}" for number in length),
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _unrecorded(random: Random) -> str:
    """A question like those that are recorded, or not like them at all."""
    text = text_of(random.randrange(QUESTIONS))
    others = (text[:-1], text.upper(), text.replace("c", "k"), f"{text} Say it in one word.")
    return random.choice([*others, f"Who wrote book {random.random()}?"])


def _document(random: Random) -> tuple[str, dict[str, Any]]:
    path = random.choice(list(_BODIES))
    return path, _BODIES[path](_unrecorded(random))


def _changed(value: Any, random: Random) -> Any:
    """The same document with something odd at some place."""
    if random.random() < 0.2 or not isinstance(value, (dict, list)) or not value:
        return random.choice(_ODD)
    if isinstance(value, list):
        place = random.randrange(len(value))
        return [*value[:place], _changed(value[place], random), *value[place + random.randrange(2) :]]
    name = random.choice(list(value))
    match random.randrange(6):
        case 0:
            return {key: one for key, one in value.items() if key != name}
        case 1:
            return {**value, random.choice(_NAMES): random.choice(_ODD)}
        case _:
            return {**value, name: _changed(value[name], random)}


def _odd_document(random: Random) -> _Attack:
    path, document = _document(random)
    return _Attack(_request(path, json.dumps(_changed(document, random)).encode()))


def _twice_named(random: Random) -> _Attack:
    """The last of two members of one name is another question."""
    path, document = _document(random)
    name = "contents" if "contents" in document else "input" if "input" in document else "messages"
    recorded = json.dumps(_BODIES[path](text_of(0))[name])
    other = json.dumps(document)[1:]
    return _Attack(_request(path, f'{{"{name}": {recorded}, {other}'.encode()))


def _garbled_body(random: Random) -> _Attack:
    path, document = _document(random)
    return _Attack(_request(path, garbled(json.dumps(document).encode(), random)))


def _odd_head(random: Random) -> _Attack:
    _, document = _document(random)
    headers = random.sample(_HEADERS, random.randint(1, 3))
    path, method = random.choice(_PATHS), random.choice(_METHODS)
    return _Attack(_request(path, json.dumps(document).encode(), method, *headers), is_whole=False)


def _garbled_request(random: Random) -> _Attack:
    path, document = _document(random)
    return _Attack(garbled(_request(path, json.dumps(document).encode()), random), is_whole=False)


def _chunks(random: Random) -> _Attack:
    path, document = _document(random)
    body, pieces = json.dumps(document).encode(), b""
    extension = random.choice([b"", b";x=y", b" "])
    while body:
        size = random.randint(1, 40)
        piece, body = body[:size], body[size:]
        pieces += b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
    pieces += b"0\r\n\r\n"
    head = _request(path, b"", "POST", "transfer-encoding: chunked")
    if random.random() < 0.5:
        return _Attack(head + pieces)
    return _Attack(head + garbled(pieces, random), is_whole=False)


def _frames(random: Random) -> _Attack:
    """A WebSocket, and what no client sends over one."""
    key = base64.b64encode(random.randbytes(16)).decode()
    opening = _request(
        "/v1/responses",
        b"",
        "GET",
        *("upgrade: websocket", "sec-websocket-version: 13", f"sec-websocket-key: {key}"),
    ).replace(b"connection: close", b"connection: upgrade")
    create = {"type": "response.create", "model": "m", "input": _user(_unrecorded(random))}
    frames = b""
    for _ in range(random.randint(1, 4)):
        document = json.dumps(random.choice([create, _changed(create, random)])).encode()
        payload = random.choice([document, garbled(document, random), random.randbytes(20)])[:60_000]
        first = random.choice([0x81, 0x81, 0x81, 0x01, 0x80, 0x82, 0x88, 0x89, 0x8A, 0xC1, 0x83, 0xFF])
        length = len(payload) if random.random() < 0.9 else 2**16 - 1
        frames += bytes([first, 0x80 | 126]) + length.to_bytes(2, "big") + bytes(4) + payload
    return _Attack(opening + frames, is_whole=False)


def _noise(random: Random) -> _Attack:
    return _Attack(random.randbytes(random.randint(1, 3000)), is_whole=False)


_ATTACKS: Final = (
    *(_odd_document, _odd_document, _garbled_body, _garbled_body, _twice_named),
    *(_odd_head, _garbled_request, _chunks, _frames, _noise),
)


def _said(port: int, data: bytes, patience: float, *, is_whole: bool) -> bytes | None:
    """What a server says until it closes the connection; ``None`` if it never does."""
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
            connection.sendall(data.replace(_HOST.encode(), b"127.0.0.1:%d" % port))
            if not is_whole:
                select.select([connection], [], [], _MORE_S)
                said = _pending(connection)
                connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(2**16):
                said += more
    except TimeoutError:
        return None
    except OSError:  # it did not want the rest
        pass
    return said


def _pending(connection: socket.socket) -> bytes:
    return connection.recv(2**16) if select.select([connection], [], [], 0)[0] else b""
