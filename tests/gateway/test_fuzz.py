"""A gateway that replays, under requests that nobody meant (``make proof`` sends thousands of them)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.gateway.conftest import Opened
from tests.gateway.fuzzing import CRASH, HANG, REFUSED, WRONG, is_served, record, verdict_of
from tests.sampling import IS_TORTURE, chance

ATTACKS = 2000 if IS_TORTURE else 80


def test_it_refuses_what_was_not_recorded_and_goes_on(opened: Opened, tmp_path: Path) -> None:
    record(tmp_path / "store")
    random = chance("requests that nobody meant")
    with opened() as gateway:
        verdicts = Counter(verdict_of(gateway.port, random) for _ in range(ATTACKS))

        assert all(is_served(gateway.port, random) for _ in range(5))
    assert {one: verdicts[one] for one in (CRASH, HANG, WRONG)} == {CRASH: 0, HANG: 0, WRONG: 0}
    assert verdicts[REFUSED] > ATTACKS / 2
