"""A bar is shown where a terminal asked for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from cortex_replay.progress import Progress, fetch_bar, show_fetches


@pytest.fixture(autouse=True)
def shown_as_before() -> Iterator[None]:
    yield
    show_fetches(nullcontext)


def test_a_library_shows_nothing() -> None:
    show_fetches(nullcontext)
    with fetch_bar() as progress:
        assert progress is None


def test_who_has_a_terminal_is_told_how_far_it_is() -> None:
    steps: list[tuple[int, int]] = []

    @contextmanager
    def bar() -> Iterator[Progress]:
        yield lambda done, total: steps.append((done, total))

    show_fetches(bar)
    with fetch_bar() as progress:
        assert progress is not None
        progress(1, 2)

    assert steps == [(1, 2)]
