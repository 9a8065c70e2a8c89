"""What may leave, and what may be stored."""

from cortex_replay.redact.sensitivity import Sensitivity, refuse_above

__all__ = ["Sensitivity", "refuse_above"]
