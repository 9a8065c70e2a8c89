"""A server that any SDK can point its base URL at: it records and replays what goes over the wire."""

from typing import TYPE_CHECKING

from cortex_replay.gateway.pace import Pace

if TYPE_CHECKING:
    from cortex_replay.gateway.server import Gateway

__all__ = ["Gateway", "Pace"]


def __getattr__(name: str) -> object:
    """Load the server with its first use: what else is here needs none."""
    if name == "Gateway":
        from cortex_replay.gateway.server import Gateway  # noqa: PLC0415

        return Gateway
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
