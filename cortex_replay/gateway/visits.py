"""Calls that come through the proxy: their server is the one that the client addressed, not the gateway."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from cortex_replay.config.servers import Server
from cortex_replay.engine.core import scope_name
from cortex_replay.engine.http.routes import path_problem
from cortex_replay.gateway.access import Entry, Refusal
from cortex_replay.hosts import host_of, normal_host

__all__ = ["VISIT", "Visit"]

VISIT: Final = "cortex_replay.visit"
"""Where a call's scope says that it came through the proxy."""


class Visit(NamedTuple):
    """A connection of somebody who knows the proxy's token."""

    server: Server
    """Whom the client addressed."""
    scope: str = ""
    """Whose turns its calls take, unless a header says otherwise."""

    def enter(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Entry | Refusal:
        """The entry of a call, or the reason why it has none.

        The whole path is the provider's: neither a token nor a scope stands before it. No web page can come
        here, because none knows the proxy's token, so ``Origin`` is no reason to refuse a call.
        """
        hosts, scope, fault = 0, self.scope, ""
        for name, value in headers:
            if name == b"host":
                hosts += 1
                if host_of(value.decode("latin-1")) != normal_host(self.server.host):
                    return Refusal(421, f"this connection leads to {self.server.host} and nowhere else")
            elif name == b"x-cortex-replay-scope":
                scope = value.decode("latin-1")
            elif name == b"x-cortex-replay-fault":
                fault = value.decode("latin-1")
        if hosts != 1:
            return Refusal(403, "a call needs one Host")
        if (problem := path_problem(path)) is not None:
            return Refusal(400, f"this path is not served: it {problem}")
        return Entry(path, scope_name(scope), fault)
