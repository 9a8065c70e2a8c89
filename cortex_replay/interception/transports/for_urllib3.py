"""urllib3, below its retries: so requests, botocore and what is built on them are intercepted.

Its connections are those of :mod:`http.client`, but it connects them before it writes a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from cortex_replay.interception.request import Request
from cortex_replay.interception.transports.active import find
from cortex_replay.interception.transports.answer_socket import AnswerSocket
from cortex_replay.interception.transports.for_http_client import url_of
from cortex_replay.interception.transports.seam import Replacement, Transport

__all__ = ["TRANSPORTS"]

_WITHOUT_TUNNEL: Final[WeakSet[Any]] = WeakSet()
"""Connections that are still to be led through a proxy."""


def _replacements(library: Any) -> Iterable[Replacement]:
    pool, tls_pool = library.HTTPConnectionPool, library.HTTPSConnectionPool
    prepare = tls_pool.__dict__["_prepare_proxy"]
    yield Replacement(tls_pool, "_prepare_proxy", lambda _: _put_off)
    yield Replacement(pool, "_make_request", partial(_make_request, prepare))


TRANSPORTS: Final = [Transport("urllib3.connectionpool", _replacements)]


def _put_off(_: object, connection: Any) -> None:
    _WITHOUT_TUNNEL.add(connection)


def _make_request(prepare: Callable[..., None], original: Callable[..., Any]) -> Callable[..., Any]:
    def make_request(pool: Any, connection: Any, method: str, url: str, **options: Any) -> Any:
        connect = connection.connect
        if connection in _WITHOUT_TUNNEL:
            _WITHOUT_TUNNEL.discard(connection)
            connect = partial(prepare, pool, connection)
        headers = dict(options.get("headers") or {})
        found = find(_request(pool, method, url, headers))
        if found is None:
            if connect != connection.connect:
                connect()
            return original(pool, connection, method, url, **options)
        AnswerSocket.put(found, connection, connect)
        connection.is_verified = True  # nobody is asked whose certificate could be wrong
        # A client that expects to be told to go on would wait for it at a real socket.
        options["headers"] = {name: value for name, value in headers.items() if _text(name) != "expect"}
        return original(pool, connection, method, url, **options)

    return make_request


def _request(pool: Any, method: str, url: str, headers: dict[Any, Any]) -> Request:
    texts = [
        (_text(name), value if isinstance(value, str) else value.decode("latin-1"))
        for name, value in headers.items()
    ]
    return Request.at(method, url_of(pool.scheme, pool.host, pool.port, url), texts)


def _text(name: str | bytes) -> str:
    return (name if isinstance(name, str) else name.decode("latin-1")).lower()
