"""The page as a server: documents behind the doors of the gateway, to be read and nothing else."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from cortex_replay.errors import LlmError
from cortex_replay.gateway.access import Access, Refusal, hosts_of
from cortex_replay.gateway.serving import Serving, bind_socket, server_for
from cortex_replay.history.runs import UnknownRun
from cortex_replay.redact.logs import logger_of
from cortex_replay.view.bundle import STYLES, asset, modules
from cortex_replay.view.library import Library
from cortex_replay.view.page import SERVED_POLICY, served_page

__all__ = ["ViewServer"]

logger = logger_of(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HOST: Final = "127.0.0.1"
_METHODS: Final = ("GET", "HEAD")
_HEADERS: Final = (
    ("content-security-policy", f"{SERVED_POLICY}; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""Of every answer, whatever it is."""
_JSON: Final = "application/json"
_SCRIPT: Final = "text/javascript; charset=utf-8"
_STYLE: Final = "text/css; charset=utf-8"
_FIRST: Final = "store"
_DATA: Final = "/data/"
_ASSETS: Final = "/assets/"
_CONFLICT: Final = 409
"""The store is not what its index says, or was not a moment ago."""


class _Reply(NamedTuple):
    status: int
    type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def plain(cls, status: int, text: str, *headers: tuple[str, str]) -> _Reply:
        """A sentence for a person."""
        return cls(status, "text/plain; charset=utf-8", text.encode(errors="replace"), headers)


class ViewServer(Serving):
    """A page on this machine.

    Args:
        library: What it shows.
        port: 0 for a free one.
    """

    def __init__(self, library: Library, *, port: int = 0) -> None:
        self._library = library
        self.token = secrets.token_hex(32)
        self._socket = bind_socket(_HOST, port)
        self.port = int(self._socket.getsockname()[1])
        self._access = Access(hosts_of(_HOST, self.port), self.token, has_pages=True)
        self._types = dict.fromkeys(modules(), _SCRIPT) | dict.fromkeys(STYLES, _STYLE)
        """The files of the page; there are no others."""
        self._server = server_for(self._answer)
        # One after the other: a library makes what several documents need once.
        self._worker = ThreadPoolExecutor(1, "cortex-replay view")

    @property
    def url(self) -> str:
        """Where the page is, token and all."""
        return f"http://{_HOST}:{self.port}/t-{self.token}/"

    async def serve(self) -> None:
        """Serve until somebody stops it."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()  # the server does not, if it is stopped as it starts
            self._worker.shutdown(cancel_futures=True)

    async def _answer(self, scope: Message, _: Receive, send: Send) -> None:
        """The page as an ASGI application."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        try:
            reply = await self._reply(scope)
        except Exception as error:  # noqa: BLE001 - whatever it is, a reader gets an answer and no traceback
            reply = _failure(error)
        headers = [*_HEADERS, ("content-type", reply.type), ("content-length", str(len(reply.body)))]
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": [(name.encode(), value.encode()) for name, value in (*headers, *reply.headers)],
            }
        )
        await send({"type": "http.response.body", "body": reply.body})  # of which a HEAD gets none

    async def _reply(self, scope: Message) -> _Reply:
        raw_path = scope["raw_path"].decode("latin-1")
        entry = self._access.enter(raw_path, scope["headers"])
        if isinstance(entry, Refusal):
            return _Reply.plain(entry.status, f"cortex-replay: {entry.reason}")
        if scope["method"] not in _METHODS:
            reason = "cortex-replay: this page can be read, and nothing else"
            return _Reply.plain(405, reason, ("allow", ", ".join(_METHODS)))
        if entry.path == "/":
            if not raw_path.endswith("/"):  # what the page asks for stands below it
                return _Reply.plain(308, "", ("location", f"/t-{self.token}/"))
            return _Reply(200, "text/html; charset=utf-8", served_page(self._library.title).encode())
        if entry.path.startswith(_ASSETS):
            name = entry.path.removeprefix(_ASSETS)
            if name in self._types:
                return _Reply(200, self._types[name], asset(name).encode())
        if entry.path.startswith(_DATA):
            query = scope["query_string"].decode("latin-1")
            name = entry.path.removeprefix(_DATA)
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._document, name, query)
        return _Reply.plain(404, "cortex-replay: there is nothing here")

    def _document(self, name: str, query: str) -> _Reply:
        try:
            document = self._library.document(name, query)
        except (LlmError, UnknownRun) as error:
            return _Reply.plain(_CONFLICT, f"cortex-replay: {self._library.redact(str(error))}")
        if document is None:
            return _Reply.plain(404, "cortex-replay: there is no such document")
        if name == _FIRST:  # its reader looks at it before searching
            self._worker.submit(self._prepare)
        return _Reply(200, _JSON, _encode(document))

    def _prepare(self) -> None:
        with suppress(Exception):  # whoever searches is told
            self._library.prepare_search()


def _encode(document: object) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # half of a character, which only escapes can say
        return json.dumps(document).encode()


def _failure(error: Exception) -> _Reply:
    """What a reader is told of a mistake of ours; never anything that it holds."""
    logger.error("a document could not be made: %s", type(error).__name__)
    return _Reply.plain(500, f"cortex-replay: internal error ({type(error).__name__})")
