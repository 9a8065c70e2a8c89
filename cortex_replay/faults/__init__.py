"""Failures on demand: what an agent does when the model fails, tested from any recording."""

from typing import TYPE_CHECKING

from cortex_replay.faults.fault import KINDS, Fault
from cortex_replay.faults.schedule import Faults

if TYPE_CHECKING:
    from cortex_replay.faults.adapter import FaultAdapter

__all__ = ["KINDS", "Fault", "FaultAdapter", "Faults"]


def __getattr__(name: str) -> object:
    """Load the adapter with its first use: a gateway needs none."""
    if name == "FaultAdapter":
        from cortex_replay.faults.adapter import FaultAdapter  # noqa: PLC0415

        return FaultAdapter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
