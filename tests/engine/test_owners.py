"""Whose recordings a test has, where a recorder of cassettes made a file name of its name."""

from __future__ import annotations

import pytest

from cortex_replay.engine.owners import owner_of_test


@pytest.mark.parametrize(
    ("node_id", "cassette"),
    [
        ("tests/test_m.py::test_plain", "tests/test_m.py::test_plain"),
        ("tests/test_m.py::test_x[gpt-4o/mini:1]", "tests/test_m.py::test_x[gpt-4o-mini-1]"),
        ("tests/test_m.py::TestOuter::TestInner::test_deep", "tests/test_m.py::TestInner::test_deep"),
        ("tests/test_m.py::test_by_name_too[2]", "tests/test_m.py::test_by_name_too"),
        ("tests/test_m.py::test_plain", "tests/::test_plain"),
    ],
)
def test_a_test_finds_what_its_cassette_is_called(node_id: str, cassette: str) -> None:
    assert owner_of_test(node_id, {cassette, "tests/test_m.py::another"}) == cassette


def test_a_test_that_recorded_under_its_id_needs_no_other_name() -> None:
    node_id = "t.py::test[a/b]"

    assert owner_of_test(node_id, {node_id, "t.py::test[a-b]"}) == node_id
    assert owner_of_test(node_id, set()) == node_id
    assert owner_of_test(node_id, {"t.py::test[c]"}) == node_id
