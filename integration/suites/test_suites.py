"""What passes with vcrpy passes once it is moved over, or was replaying the answer to another question."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.suites.catalogue import SUITES, Suite
from integration.suites.comparison import compare
from integration.suites.runs import run_suite
from integration.suites.sources import MissingSource


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_a_suite_moves_over_whole(suite: Suite, tmp_path: Path) -> None:
    try:
        comparison = compare(run_suite(suite, tmp_path))
    except MissingSource as error:
        pytest.skip(str(error))
    others = comparison.unexplained

    assert comparison.with_vcrpy > 0
    assert len(others) <= 0.02 * comparison.with_vcrpy, "\n".join(
        f"{one.test}: {one.reason}" for one in others
    )
