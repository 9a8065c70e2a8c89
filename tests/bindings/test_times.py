"""Times and epochs are bound near the clock of the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cortex_replay.bindings import BindingRules, Surroundings
from tests.bindings.ann import ENVIRONMENT, NOW, bind, surroundings

EPOCH = int(NOW.timestamp())


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2026-11-05T09:20:11Z",
            "2026-11-05T09:20:11.123456Z",
            "2026-11-05T10:20:11+01:00",
            "2026-11-05 09:20",
        ),
        *("2026-11-05 10:20:11", "2026-11-05T09-20-11", "20261105T092011Z", "20261105_092011"),
        *("Thu, 05 Nov 2026 09:20:11 GMT", "Thu, 5 Nov 2026 10:20:11 +0100", "Thu Nov  5 09:20:11 2026"),
        *("Thu Nov  5 09:20:11 UTC 2026", "Nov  5 09:20", "Nov 5 09:20:11", "11/5/2026, 9:20:11 AM"),
        "Thursday, November 5, 2026 at 9:20 AM",
        "Thu Nov 05 2026 10:20:11 GMT+0100 (Central European Standard Time)",
    ],
)
def test_a_time_of_the_run_is_bound(text: str) -> None:
    assert bind(f"at {text}, so") == "at ⟦time#1⟧, so"


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-05T12:00:00Z", "⟦date⟧T12:00:00Z"),
        ("2026-11-05T00:00:00", "⟦date⟧T00:00:00"),
        ("2026-11-05T09:20:11-05:00", "⟦date⟧T09:20:11-05:00"),
        ("2026-11-05T25:61:00Z", "⟦date⟧T25:61:00Z"),
        ("2026-11-05T09:20:11Zebra", "⟦date⟧T09:20:11Zebra"),
        ("2026-11-04T09:20:11Z", "2026-11-04T09:20:11Z"),
        ("09:20:11", "09:20:11"),
        ("Nov 5 12:00", "Nov 5 12:00"),
    ],
)
def test_another_time_is_not_bound(text: str, stored: str) -> None:
    assert bind(text) == stored


def test_the_window_begins_before_the_run_and_ends_behind_now() -> None:
    moments = [NOW]
    known = Surroundings.of(ENVIRONMENT, "/srv/ann", lambda: moments[-1])
    moments.append(NOW + timedelta(hours=2))

    def is_bound(moment: datetime) -> bool:
        return bind(f"{moment:%Y-%m-%dT%H:%M:%SZ}", known=known).startswith("⟦time")

    assert is_bound(NOW - timedelta(minutes=9))
    assert is_bound(NOW + timedelta(hours=1))
    assert is_bound(NOW + timedelta(hours=2, minutes=9))
    assert not is_bound(NOW - timedelta(minutes=11))
    assert not is_bound(NOW + timedelta(hours=2, minutes=21))


@pytest.mark.parametrize(
    "text", [f"{EPOCH}", f"{EPOCH}.25", f"{EPOCH}123", f"{EPOCH}123456", f"{EPOCH}123456789"]
)
def test_an_epoch_of_the_run_is_bound(text: str) -> None:
    assert bind(f"at {text}.") == "at ⟦epoch#1⟧."


@pytest.mark.parametrize(
    "text",
    [
        f"{EPOCH - 3600}",
        f"{EPOCH + 3600}",
        f"1{EPOCH}",
        f"{EPOCH}1",
        f"x{EPOCH}",
        f"{EPOCH}x",
        f"0.{EPOCH}",
        f"{EPOCH}.1.2",
    ],
)
def test_another_number_is_not_bound(text: str) -> None:
    assert bind(f"at {text} ") == f"at {text} "


def test_fine_times_are_numbered_by_value_and_coarse_ones_by_occurrence() -> None:
    """Whether two seconds are the same is chance: a replay waits for no model."""
    fine = f"2026-11-05T09:20:11.123Z 2026-11-05T09:20:11.123Z {EPOCH}123 {EPOCH}123"
    coarse = f"2026-11-05T09:20:11Z 2026-11-05T09:20:11Z {EPOCH} {EPOCH}"

    assert bind(fine) == "⟦time#1⟧ ⟦time#1⟧ ⟦epoch#1⟧ ⟦epoch#1⟧"
    assert bind(coarse) == "⟦time#1⟧ ⟦time#2⟧ ⟦epoch#1⟧ ⟦epoch#2⟧"


def test_on_another_day_all_its_times_belong_to_the_run() -> None:
    known = surroundings().on(datetime(2027, 1, 2, tzinfo=UTC).date())

    assert bind("2027-01-02T17:00:00Z 2026-11-05T09:20:11Z", known=known) == "⟦time#1⟧ 2026-11-05T09:20:11Z"


def test_times_can_be_left_alone() -> None:
    text = f"2026-11-05T09:20:11Z {EPOCH}"

    assert bind(text, BindingRules(shapes=("uuid",))) == f"⟦date⟧T09:20:11Z {EPOCH}"
