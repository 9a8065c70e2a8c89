"""What may leave, and what may be stored. `docs/redaction.md` is the guide."""

from typing import TYPE_CHECKING

from cortex_replay.redact.sensitivity import Sensitivity, refuse_above

if TYPE_CHECKING:
    from cortex_replay.redact.redactor import Redactor

__all__ = ["Redactor", "Sensitivity", "refuse_above"]


def __getattr__(name: str) -> object:
    """Load the redactor with its first use: a replay needs none."""
    if name == "Redactor":
        from cortex_replay.redact.redactor import Redactor  # noqa: PLC0415

        return Redactor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
