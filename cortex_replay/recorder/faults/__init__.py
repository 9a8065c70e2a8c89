"""Failures on demand: what an agent does when the model fails, tested from any recording."""

from cortex_replay.recorder.faults.adapter import FaultAdapter
from cortex_replay.recorder.faults.fault import KINDS, Fault
from cortex_replay.recorder.faults.schedule import Faults

__all__ = ["KINDS", "Fault", "FaultAdapter", "Faults"]
