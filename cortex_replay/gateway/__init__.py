"""A server that any SDK can point its base URL at: it records and replays what goes over the wire."""

from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.server import Gateway

__all__ = ["Gateway", "Pace"]
