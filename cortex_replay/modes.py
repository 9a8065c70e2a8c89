"""What a run does with a call."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from cortex_replay.errors import InvalidRequest

__all__ = ["AnyMode", "Mode"]


class Mode(StrEnum):
    """One of four; each equals its name, so that ``"once"`` will do wherever a mode is expected."""

    REPLAY = "replay"
    """Answer from the store, and never ask."""
    RECORD = "record"
    """Ask everything, and overwrite what is recorded."""
    ONCE = "once"
    """Ask what is not recorded yet."""
    LIVE = "live"
    """Ask everything, and record nothing."""

    @property
    def writes(self) -> bool:
        """Whether answers are recorded."""
        return self is Mode.ONCE or self is Mode.RECORD

    @property
    def asks(self) -> bool:
        """Whether a provider may be asked."""
        return self is not Mode.REPLAY

    @classmethod
    def of(cls, name: AnyMode) -> Mode:
        """The mode of a name.

        Raises:
            InvalidRequest: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            raise InvalidRequest("mode", f"expected one of {', '.join(cls)}, not {name!r}") from None


AnyMode = Mode | Literal["replay", "record", "once", "live"]
"""A mode, or its name."""
