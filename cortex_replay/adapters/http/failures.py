"""What went wrong on the way to a server, in words that name it."""

from __future__ import annotations

import os
import socket
import ssl

import httpx

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http.endpoint import Endpoint
from cortex_replay.errors import LlmError, Timeout, Transport

__all__ = ["failure_at", "reason_of"]

_CONNECTING = (httpx.ConnectError, httpx.ProxyError)


def failure_at(endpoint: Endpoint, deadline: Deadline, error: Exception) -> LlmError:
    """An error of the HTTP client as one of ours. Nothing of the request leaves with it."""
    if isinstance(error, TimeoutError):
        return Timeout(deadline.timeout_ms, endpoint.origin)
    if not isinstance(error, _CONNECTING):
        return Transport(f"the connection to {endpoint.origin} broke ({reason_of(error)})")
    if endpoint.is_loopback:
        advice = "start the server, or correct its address"
    else:
        advice = "check its address, your network and your proxy"
    return Transport(f"cannot connect to {endpoint.origin} ({_root_of(error)}); {advice}")


def reason_of(error: BaseException) -> str:
    """What happened, in the words of the library that noticed."""
    text = str(error).partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _root_of(error: BaseException) -> str:
    """What the system said: "All connection attempts failed" says nothing."""
    root: BaseException | None = error
    while root is not None:
        if isinstance(root, BaseExceptionGroup):  # one for each address of a name
            root = root.exceptions[0]
        elif isinstance(root, socket.gaierror | ssl.SSLError) and root.strerror:
            return root.strerror
        elif isinstance(root, OSError) and root.errno:  # asyncio puts words of its own in its place
            return os.strerror(root.errno)
        else:
            root = root.__cause__ or root.__context__
    return reason_of(error)
