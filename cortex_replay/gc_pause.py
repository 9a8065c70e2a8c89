"""Work that makes very many values, none of them garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pause_gc"]


@contextmanager
def pause_gc() -> Iterator[None]:
    """Keep the cycle collector from walking over a hundred thousand new values again and again.

    On a large index those walks cost a third of the whole time, and find nothing. Modules that are loaded are
    such values, too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
