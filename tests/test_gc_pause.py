"""Work without the collector: it runs again afterwards, unless somebody had turned it off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from cortex_replay.gc_pause import pause_gc


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("is_on", [True, False])
def test_it_is_as_it_was_afterwards(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()
    with pause_gc():
        assert not gc.isenabled()
        with pause_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()

    assert gc.isenabled() == is_on


def test_it_is_as_it_was_after_a_failure() -> None:
    gc.enable()
    with pytest.raises(KeyError), pause_gc():
        raise KeyError

    assert gc.isenabled()
