"""One recorded test as a family: every call fails once in every way."""

from __future__ import annotations

from typing import Final

import pytest

from cortex_replay.errors import InvalidRequest, LlmError
from cortex_replay.faults import Fault
from cortex_replay.pytest_plugin.session import LlmSession
from cortex_replay.pytest_plugin.terminal import shown

__all__ = ["family_of"]

_FAULTS: Final = ("429:0.01", "529", "timeout", "cut", "malformed-tool")


def family_of(session: LlmSession, test: str, marker: pytest.Mark) -> list[str]:
    """The faults of each member; the first is the test itself. While recording there is only that."""
    if session.run.mode.asks:
        return [""]
    turns = marker.kwargs.get("turns") or _count_calls(session, session.clean(test))
    try:
        faults = [
            str(Fault.parse(f"{str(kind).partition('@')[0]}@{turn}"))
            for turn in range(1, turns + 1)
            for kind in marker.args or _FAULTS
        ]
    except InvalidRequest as error:
        raise pytest.UsageError(shown(f"{test}: llm_faults: {error.reason}")) from None
    return ["", *faults]


def _count_calls(session: LlmSession, test: str) -> int:
    """How many answers a test has recorded, as its fixtures say."""
    count = 0
    try:
        store = session.store
        for item in store.list():
            fixture = store.get(item.model, item.prompt_hash)
            tests = (fixture.meta or {}).get("tests")
            if isinstance(tests, list) and test in tests:
                count += len(fixture.answers)
    except (LlmError, pytest.fail.Exception):
        return 1
    return max(1, count)
