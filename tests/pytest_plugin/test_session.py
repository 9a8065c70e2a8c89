"""What becomes of a test that fails, or one of whose calls was refused: no pytest within pytest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cortex_replay.pytest_plugin import session
from cortex_replay.pytest_plugin.session import LlmSession, TestRun


@pytest.mark.parametrize(
    ("has_failed", "keep_failed", "is_kept"),
    [(False, False, True), (False, True, True), (True, False, False), (True, True, True)],
)
def test_only_a_test_that_passed_keeps_its_answers(
    has_failed: bool, keep_failed: bool, is_kept: bool
) -> None:
    kept: list[bool] = []
    run = SimpleNamespace(has_failed=has_failed, name="test_a", end=lambda *, keep: kept.append(keep))
    llm: Any = SimpleNamespace(config=SimpleNamespace(getoption=lambda _: keep_failed), ran={})
    item: Any = SimpleNamespace(stash={session._RUN: run})

    LlmSession.end(llm, item)

    assert kept == [is_kept]
    assert llm.ran == {"test_a": not has_failed}


@pytest.mark.parametrize(
    ("refusals", "calls", "asks", "allows_none", "fails"),
    [
        ([], 1, False, False, False),
        ([], 0, False, False, True),
        ([], 0, False, True, False),
        ([], 0, True, False, False),
        (["a live call was refused"], 1, False, True, True),
        (["a live call was refused"], 1, True, True, True),
    ],
)
def test_a_test_that_went_around_us_fails(
    refusals: list[str], calls: int, asks: bool, allows_none: bool, fails: bool
) -> None:
    """Whatever its client made of the refusal, in whatever thread; and if it asked nobody at all."""
    run: Any = SimpleNamespace(
        refusals=refusals,
        recording=SimpleNamespace(calls=[0] * calls),
        interception=SimpleNamespace(calls=0),
        _servers=SimpleNamespace(sessions=0),
        faults=SimpleNamespace(struck={}),
        mode=SimpleNamespace(asks=asks),
        _allows_no_calls=allows_none,
    )
    if fails:
        with pytest.raises(pytest.fail.Exception, match="refused" if refusals else "made no model call"):
            TestRun.check_calls(run)
    else:
        TestRun.check_calls(run)
