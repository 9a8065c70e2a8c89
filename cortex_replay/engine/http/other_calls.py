"""The calls of a test that ask no model: a picture, a search, an MCP server (``http="all"``).

They are opaque exchanges whose upstream is the server's URL. A client asked that server itself, and acts on
more of the answer than a client of a model does: so more headers are kept, and redirects are its to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import stored_query
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.secret_names.names import is_secret_header

__all__ = ["is_other", "may_be_led", "other_headers", "other_server", "recordable_other_headers"]

_OF_ONE_CONNECTION: Final = frozenset(
    [
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "alt-svc"),
        "content-encoding",  # what is stored and given is decoded
    ]
)
_NOT_KEPT: Final = _OF_ONE_CONNECTION | frozenset(
    [
        *("age", "date", "nel", "report-to", "server", "server-timing", "via"),  # of that very day
        *("clear-site-data", "refresh", "strict-transport-security"),  # of a browser
    ]
)
_WITH_OTHER_METHOD: Final = (301, 302, 303)


def other_server(scheme: str, authority: str) -> UpstreamServer:
    """The server that a client chose itself. It has no key but what the client brings."""
    url = f"{scheme}://{authority}"
    return UpstreamServer(url, "http", url)


def is_other(upstream: str) -> bool:
    """Whether an upstream is a server of no model."""
    return upstream.startswith(("http://", "https://"))


def other_headers(headers: list[tuple[str, str]], method: str) -> list[tuple[str, str]]:
    """What a client gets of a server's headers while it is recorded: what it would get without us."""
    dropped = _OF_ONE_CONNECTION if method == "HEAD" else _OF_ONE_CONNECTION | {"content-length"}
    return [(name.lower(), value) for name, value in headers if name.lower() not in dropped]


def recordable_other_headers(headers: list[tuple[str, str]], method: str) -> dict[str, str]:
    """What a recording keeps of them: what a client may act on, and no cookie or key."""
    return {
        name: value
        for name, value in other_headers(headers, method)
        if name not in _NOT_KEPT and not is_secret_header(name) and not name.startswith("x-cortex-replay-")
    }


def may_be_led(
    wire: Mapping[str, JsonValue],
    request: Mapping[str, JsonValue],
    location: str,
    is_recorded: Callable[[dict[str, JsonValue]], bool],
) -> bool:
    """Whether a client may be told where to go next.

    Somebody else may have written the recording, and the client takes its key along. It may go on at its own
    server, and wherever it finds its answer recorded.
    """
    following = _next_request(wire, request, location)
    return following["upstream"] == request["upstream"] or is_recorded(following)


def _next_request(
    wire: Mapping[str, JsonValue], request: Mapping[str, JsonValue], location: str
) -> dict[str, JsonValue]:
    """What a client asks that is led elsewhere."""
    parts = urlsplit(urljoin(f"{request['upstream']}{request['path']}", location))
    keeps_method = wire.get("status") not in _WITH_OTHER_METHOD or request["method"] in ("GET", "HEAD")
    return {
        "upstream": f"{parts.scheme}://{parts.netloc}",
        "method": request["method"] if keeps_method else "GET",
        "path": parts.path or "/",
        "query": stored_query(parts.query),
        "body": request["body"] if keeps_method else None,
    }
