"""How old recordings are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cortex_replay import Answer
from cortex_replay.history.ages import OldFile, judge_ages, recorded_time
from cortex_replay.store.exchange import Exchange
from tests.builder import ask, fixture_of

THEN = datetime(2026, 1, 2, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("metas", "expected"),
    [
        ([{"recorded_at": "2026-01-02T00:00:00Z"}], THEN),
        ([{"recorded_at": "2026-01-02T02:00:00+02:00"}], THEN),
        ([{"recorded_at": "2026-03-01"}, {"recorded_at": "2026-01-02"}], THEN),
        ([{}, {"recorded_at": "2026-01-02"}], THEN),
        ([{"recorded_at": "yesterday"}], None),
        ([{"recorded_at": 7}], None),
        ([{"asked_at": "2026-01-02"}], None),
    ],
)
def test_the_oldest_answer_counts(metas: list[dict[str, Any]], expected: float | None) -> None:
    """What is refreshed in part is as old as the rest."""
    first, *others = metas
    answers = [Answer("one"), *(Answer(f"{n}", meta=meta) for n, meta in enumerate(others))]

    assert expected == recorded_time(fixture_of(ask("q"), *answers, meta=first))


def test_a_call_to_a_server_is_as_old_as_it_was_asked() -> None:
    """Other calls that are no questions do not say."""
    wire: dict[str, Any] = {"messages": [], "meta": {"asked_at": "2026-01-02T00:00:00.000Z"}}

    assert recorded_time(Exchange(wire, key="0" * 64)) == THEN
    assert recorded_time(Exchange({"status": 200}, key="0" * 64)) is None


def test_the_oldest_come_first_and_those_without_a_time_apart() -> None:
    """One that is as old as it may be is not old yet."""
    day = 86_400
    times = {"b": THEN - 5 * day, "new": THEN, "at": THEN - 2 * day, "a": THEN - 5 * day, "z": THEN - 9 * day}
    ages = judge_ages({**times, "x": None}, timedelta(days=2), THEN)

    assert [one.path for one in ages.old] == ["z", "a", "b"]
    assert (ages.recordings, ages.undated) == (6, 1)


def test_the_first_day_of_all_can_be_said() -> None:
    """A hostile recording is from the year 1, east of here."""
    fixture = fixture_of(ask("q"), Answer("a"), meta={"recorded_at": "0001-01-01T00:00:00+14:00"})
    at = recorded_time(fixture)

    assert at is not None
    assert OldFile("p", at).moment == datetime.min.replace(tzinfo=UTC)
