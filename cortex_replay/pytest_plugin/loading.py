"""How the modules that a marked test needs are loaded: hundreds of them at once, while somebody waits."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

import pytest

from cortex_replay.gc_pause import pause_gc

__all__ = ["loading"]

_OWN: Final = __name__.partition(".")[0] + "."


class _PlainImports:
    """Finds our own modules as Python does.

    pytest takes every module of a plugin for one whose assertions are to be explained, reads its source, and
    hashes it, whenever it is loaded. Ours assert nothing that a user's test could break.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(_OWN) else None


@contextmanager
def loading(config: pytest.Config) -> Iterator[None]:
    """Load what a marked test needs; what it loads later is found in the same way until the run ends."""
    if _PlainImports not in sys.meta_path:
        sys.meta_path.insert(0, _PlainImports)
        config.add_cleanup(_find_as_before)
    with pause_gc():
        yield
    if not gc.get_freeze_count():  # else somebody has frozen more than we may thaw
        # What was loaded stays: to the oldest generation with it, so that the younger ones need not walk it.
        gc.freeze()
        gc.unfreeze()


def _find_as_before() -> None:
    with suppress(ValueError):  # who runs pytest within pytest puts it back as it was
        sys.meta_path.remove(_PlainImports)
