"""Failures on demand: what an agent does when the model fails, tested from any recording."""

from cortex_replay.faults.fault import KINDS, Fault
from cortex_replay.faults.schedule import Faults

__all__ = ["KINDS", "Fault", "Faults"]
