"""http.client of the standard library, and what is built on it: urllib.request, httplib2 and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from cortex_replay.interception.request import Request
from cortex_replay.interception.transports.active import find
from cortex_replay.interception.transports.answer_socket import AnswerSocket
from cortex_replay.interception.transports.seam import Replacement, Transport

__all__ = ["TRANSPORTS", "url_of"]


def _replacements(library: Any) -> Iterable[Replacement]:
    yield Replacement(library.HTTPConnection, "endheaders", partial(_endheaders, library))


TRANSPORTS: Final = [Transport("http.client", _replacements)]


def url_of(scheme: str, host: str, port: int | None, target: str) -> str:
    """The URL of a request, whose target is a path, or the whole of it where a proxy is asked."""
    if "://" in target.partition("?")[0]:
        return target
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{name}{'' if port is None else f':{port}'}{target}"


def _endheaders(library: Any, original: Callable[..., None]) -> Callable[..., None]:
    """All headers are known there, and nothing is written or connected yet."""

    def endheaders(connection: Any, *arguments: Any, **options: Any) -> None:
        if not AnswerSocket.is_at(connection):  # as urllib3 has it
            found = find(_request(library, connection))
            if found is not None:
                AnswerSocket.put(found, connection, connection.connect)
        original(connection, *arguments, **options)

    return endheaders


def _request(library: Any, connection: Any) -> Request:
    written = connection._buffer  # noqa: SLF001 - the lines of the head, which nothing else gives
    first, *lines = b"\r\n".join(written).decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    scheme = "https" if connection.default_port == library.HTTPS_PORT else "http"
    host, port = connection._tunnel_host, connection._tunnel_port  # noqa: SLF001 - behind a proxy
    if not host:
        host, port = connection.host, connection.port
    return Request.at(method, url_of(scheme, host, port, rest.rpartition(" ")[0]), headers)
