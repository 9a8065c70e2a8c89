"""Who answers the requests of this process at the moment."""

from __future__ import annotations

from typing import Final, NamedTuple

from cortex_replay.engine.bypass import is_bypassed
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.routes import METHODS
from cortex_replay.interception.interception import Interception, Target
from cortex_replay.interception.request import Request

__all__ = ["ACTIVE", "Found", "find"]

ACTIVE: Final[list[Interception]] = []
"""Of several, the last has the say."""


class Found(NamedTuple):
    """A request that may be ours, as far as its head can tell."""

    interception: Interception
    target: Target
    request: Request

    @property
    def is_sure(self) -> bool:
        """Whether it is ours, whatever its body says."""
        looks_like = self.target.model_call
        return self.interception.takes_all or looks_like is None or not looks_like.fields

    def call(self, body: bytes) -> Call | None:
        """The call that it is; ``None`` if it is none of ours."""
        return self.interception.call(self.target, self.request, body)


def find(request: Request) -> Found | None:
    """Who answers a request, and as whom; ``None`` for all other traffic."""
    if is_bypassed() or not ACTIVE or request.method not in METHODS:
        return None
    if request.header("upgrade").lower() == "websocket":  # what follows is no HTTP
        return None
    active = ACTIVE[-1]
    target = active.target(request)
    return None if target is None else Found(active, target, request)
