"""How fast a recorded stream is replayed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from cortex_replay.errors import InvalidRequest

__all__ = ["Pace"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pace:
    """A factor on the recorded times: 0 is at once, 1 as it was recorded, 2 twice as slow."""

    factor: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """A pace from ``instant``, ``recorded`` or a factor.

        Raises:
            InvalidRequest: It is none of these.
        """
        named = {"instant": 0.0, "recorded": 1.0}
        try:
            factor = named[text] if text in named else float(text)
        except ValueError:
            factor = -1.0
        if not 0 <= factor <= 1000:
            raise InvalidRequest("pace", "expected instant, recorded or a factor from 0 to 1000")
        return cls(factor)

    @property
    def is_instant(self) -> bool:
        return self.factor == 0

    async def spread(self, events: Sequence[tuple[float, _T]]) -> AsyncIterator[_T]:
        """Recorded events, each at its time, in milliseconds from the start."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        for at_ms, event in events:
            pause = started + at_ms / 1000 * self.factor - loop.time()
            # A moment at least, so that each event is a piece of its own on the way.
            await asyncio.sleep(max(0.0, pause))
            yield event
