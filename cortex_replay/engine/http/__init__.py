"""Calls of clients that nobody here wrote, recorded and replayed as they go over the wire.

No sockets: a gateway, or whatever intercepts a client inside its own process, brings a :class:`Call` and
carries away a :class:`Reply`.
"""

from cortex_replay.engine.http.call import Call, Reply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.engine.ledger import Ledger

__all__ = ["Call", "Engine", "Ledger", "Reply", "Upstreams"]
