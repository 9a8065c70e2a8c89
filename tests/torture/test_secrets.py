"""Secrets at full length: every kind in every encoding twenty times, ten thousand clean recordings."""

from __future__ import annotations

import pytest

from cortex_replay.redact.redactor import Redactor
from tests.growth import grows_linearly
from tests.redact.figures import false_hits, missed_by_pattern, missed_by_value
from tests.redact.test_linear import HOSTILE
from tests.sampling import IS_TORTURE, sample

EACH = 20
CLEAN = 10_000
LARGE = 2**20 if IS_TORTURE else 2**14
only_torture = pytest.mark.skipif(not IS_TORTURE, reason="in short in tests/redact/test_figures.py")


@only_torture
def test_by_pattern() -> None:
    """99 in a hundred."""
    missed, total = missed_by_pattern(EACH, "torture")

    assert total >= 3500
    assert len(missed) <= 0.01 * total, missed


@only_torture
def test_by_value() -> None:
    """All."""
    missed, _ = missed_by_value(EACH, "torture")

    assert missed == []


@only_torture
def test_false_hits() -> None:
    """One in ten thousand at most."""
    found = false_hits(CLEAN, "torture")

    assert len(found) <= CLEAN / 10_000, found


@pytest.mark.parametrize("unit", sample(HOSTILE, 8), ids=lambda unit: repr(unit[:24]))
def test_a_large_hostile_text(unit: str) -> None:
    """Two megabytes of it take twice as long as one; below, the processor's caches blur it."""
    redactor = Redactor(["known-value-0815-of-mine"])
    one = unit * (LARGE // len(unit))
    for look in (redactor.text, lambda text: redactor.left_in({"a": text})):
        assert grows_linearly(lambda look=look: look(one), lambda look=look: look(one + one))  # type: ignore[misc]
