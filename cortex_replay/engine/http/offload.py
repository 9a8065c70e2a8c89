"""Work on something large, beside the loop: meanwhile others are answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["aside", "is_large"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LARGE: Final = 64 * 1024
"""What is smaller is done sooner than a thread would begin."""


def is_large(size: int) -> bool:
    """Whether work on so many bytes holds up a loop."""
    return size >= _LARGE


async def aside(size: int, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """What ``work`` gives, from a thread if so many bytes make it slow. It always runs to its end: whoever
    is cancelled waits for it, so that nothing is half done and nothing goes on behind his back."""
    if not is_large(size):
        return work(*arguments, **options)
    job = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await job
        raise
