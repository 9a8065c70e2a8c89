"""Mode: one enum, and its names will do."""

from __future__ import annotations

import pytest

from cortex_replay import InvalidRequest, Mode
from cortex_replay.config import Settings


def test_a_mode_says_whether_it_asks_and_writes() -> None:
    """What used to be tested by name in many places."""
    assert [mode for mode in Mode if mode.writes] == [Mode.RECORD, Mode.ONCE]
    assert [mode for mode in Mode if not mode.asks] == [Mode.REPLAY]


def test_a_name_will_do_and_a_wrong_one_is_refused() -> None:
    """In code as in a configuration."""
    assert Mode.of("once") is Mode.ONCE
    assert Settings(mode="live").mode is Mode.LIVE
    assert f"{Mode.RECORD}" == "record"
    with pytest.raises(InvalidRequest, match="expected one of replay, record, once, live, not 'sometimes'"):
        Mode.of("sometimes")  # type: ignore[arg-type]
