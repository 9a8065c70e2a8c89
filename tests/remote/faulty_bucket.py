"""A server of objects that goes wrong as a test wants it. Real servers are in `integration/remote`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from cortex_replay.hashing import blake3_hex


class Asked(NamedTuple):
    method: str
    path: str
    is_signed: bool
    condition: str = ""
    """Of a put: ``if-none-match`` or ``if-match``."""


class Reply(NamedTuple):
    """What is answered in the place of the right thing."""

    status: int = 200
    body: bytes = b""
    length: int | None = None
    """What the answer says of its length, if that is a lie."""
    is_chunked: bool = False
    """Whether it is sent in chunks besides, so that its length counts for nothing."""


class FaultyBucket:
    """Objects by their paths, ``/bucket/name``."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.is_public = False
        self.can_list = True
        self.takes_keys = True
        self.keeps_conditions = True
        self.fault: Callable[[Asked], Reply | None] = lambda asked: None
        self.url = ""
        self.lock = threading.Lock()

    def answer(self, asked: Asked, headers: dict[str, str], body: bytes) -> Reply:
        url = urlsplit(asked.path)
        if not (asked.is_signed and self.takes_keys) and not (self.is_public and asked.method != "PUT"):
            return Reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        if "list-type" in url.query:
            return self.listing(parse_qs(url.query)["prefix"][0], url.path)
        there = self.objects.get(url.path)
        if asked.method == "PUT":
            is_wrong = headers.get("if-none-match") == "*" and there is not None
            is_wrong |= "if-match" in headers and headers["if-match"] != etag(there)
            if is_wrong and self.keeps_conditions:
                return Reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            self.objects[url.path] = body
            return Reply()
        if there is None:
            return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return Reply(200, there)

    def listing(self, prefix: str, path: str) -> Reply:
        if not self.can_list:
            return Reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        rows = "".join(
            f"<Contents><Key>{name}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for full, data in self.objects.items()
            if (name := full.removeprefix(f"{path}/")).startswith(prefix)
        )
        return Reply(200, f"<ListBucketResult>{rows}</ListBucketResult>".encode())


def etag(data: bytes | None) -> str:
    return "" if data is None else f'"{blake3_hex(data)[:32]}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: FaultyBucket

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        condition = next((one for one in ("if-none-match", "if-match") if one in self.headers), "")
        asked = Asked(self.command, self.path, "authorization" in self.headers, condition)
        self.bucket.asked.append(asked)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.bucket.lock:
            reply = self.bucket.fault(asked) or self.bucket.answer(asked, headers, body)
            now = self.bucket.objects.get(urlsplit(self.path).path)
        length = len(reply.body) if reply.length is None else reply.length
        self.send_response(reply.status)
        self.send_header("content-length", str(length))
        self.send_header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("etag", etag(now) or '"none"')
        if reply.is_chunked:
            self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if reply.is_chunked:
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(reply.body), reply.body))
        elif self.command != "HEAD":
            self.wfile.write(reply.body)
        if length != len(reply.body):
            self.close_connection = True

    do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve() -> Iterator[FaultyBucket]:
    bucket = FaultyBucket()
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
