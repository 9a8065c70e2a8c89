"""Calls of clients that nobody here wrote, recorded and replayed as they go over the wire.

No sockets: a gateway, or whatever intercepts a client inside its own process, brings a :class:`Call` and
carries away a :class:`Reply`.
"""

from cortex_replay.recorder.http.call import Call, Reply
from cortex_replay.recorder.http.engine import Engine
from cortex_replay.recorder.http.ledger import Ledger
from cortex_replay.recorder.http.upstreams import Upstreams

__all__ = ["Call", "Engine", "Ledger", "Reply", "Upstreams"]
