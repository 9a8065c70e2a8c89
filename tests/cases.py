"""Many small cases in one test: what pytest does for each test takes longer than they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def each(
    cases: Iterable[Case], name: Callable[[Case], str] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Make one test of a check: it takes all cases, and then fails with the name of each that failed.

    Args:
        cases: What the check takes, one at a time; at least one.
        name: What a case is called.
    """
    all_cases = list(cases)

    def test_of(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            assert all_cases
            failures: list[BaseException] = []
            for case in all_cases:
                try:
                    check(case)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - told at the end
                    failure.add_note(f"case: {name(case)}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(all_cases)} cases failed", failures)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return test_of
