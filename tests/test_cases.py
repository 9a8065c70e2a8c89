"""One test of many cases fails if one of them does, and names it."""

from __future__ import annotations

import pytest

from tests.cases import each


def test_every_case_is_taken_and_those_that_fail_are_named() -> None:
    taken = []

    @each(["fine", "wrong", "silent", "fine too"])
    def check(case: str) -> None:
        taken.append(case)
        assert case != "wrong"
        if case == "silent":
            with pytest.raises(KeyError):
                pass

    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases failed") as caught:
        check()

    assert taken == ["fine", "wrong", "silent", "fine too"]
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: wrong"], ["case: silent"]]


def test_cases_that_hold_pass() -> None:
    each([1, 2])(lambda case: None)()


def test_no_cases_are_no_test() -> None:
    with pytest.raises(AssertionError):
        each([])(lambda case: None)()
