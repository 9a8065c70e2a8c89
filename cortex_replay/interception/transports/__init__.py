"""The libraries whose requests are intercepted, each a module of its own behind one seam."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cortex_replay.interception.interception import Interception
from cortex_replay.interception.transports import (
    for_aiohttp,
    for_http_client,
    for_httpx,
    for_mcp,
    for_urllib3,
)
from cortex_replay.interception.transports.active import ACTIVE
from cortex_replay.interception.transports.seam import Replacements

__all__ = ["install"]

_LOCK: Final = threading.RLock()
_REPLACEMENTS: Final = Replacements(
    [
        *for_httpx.TRANSPORTS,
        *for_urllib3.TRANSPORTS,
        *for_http_client.TRANSPORTS,
        *for_aiohttp.TRANSPORTS,
        *for_mcp.TRANSPORTS,
    ]
)


@contextmanager
def install(interception: Interception) -> Iterator[None]:
    """Intercept for as long as this lasts; of several, the innermost has the say."""
    with _LOCK:
        if not ACTIVE:
            _REPLACEMENTS.put()
        ACTIVE.append(interception)
    try:
        yield
    finally:
        with _LOCK:
            ACTIVE.remove(interception)
            if not ACTIVE:
                _REPLACEMENTS.take_back()
