"""The figures, in short; ``make torture`` takes them at full length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cortex_replay.redact import contexts, patterns, search
from cortex_replay.redact.known_values import KnownValues
from cortex_replay.redact.patterns import PATTERNS, PatternTable
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.redact.residue import Residue
from tests.redact.figures import false_hits, missed_by_pattern, missed_by_value
from tests.redact.kinds import KINDS
from tests.redact.planted import ENCODINGS


def test_secrets_are_found_by_pattern() -> None:
    """At least 99 in a hundred, of at least 25 kinds in seven encodings."""
    missed, total = missed_by_pattern(2)

    assert len(KINDS) >= 25
    assert len(ENCODINGS) == 7
    assert len(missed) <= 0.01 * total, missed


def test_known_values_are_found_always() -> None:
    """Every one, and the search for what is left agrees before and after."""
    missed, _ = missed_by_value(1)

    assert missed == []


def test_clean_recordings_stay_as_they_are() -> None:
    """At most one in two hundred is taken for more than it is."""
    found = false_hits(250)

    assert len(found) <= 0.005 * 250, found


def _no_escapes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "unescape", lambda text: None)


def _no_base64(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "base64_views", lambda text, runs: iter(()))


def _no_joining(patch: pytest.MonkeyPatch) -> None:
    def one_by_one(self: Redactor, pieces: Sequence[str]) -> tuple[list[str], list[Hit]]:
        return [self.text(piece)[0] for piece in pieces], []

    patch.setattr(Redactor, "pieces", one_by_one)


def _a_rule_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "PATTERNS", PatternTable(p for p in PATTERNS.patterns if p.name != "github"))


def _no_context(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(search, "secrets_in_context", lambda text, runs: iter(()))


@pytest.mark.parametrize("break_it", [_no_escapes, _no_base64, _no_joining, _a_rule_less, _no_context])
def test_the_figure_for_patterns_notices(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one of the views, or one of the rules, the goal is missed."""
    break_it(monkeypatch)
    missed, total = missed_by_pattern(1)

    assert len(missed) > 0.01 * total


def _values_are_not_searched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownValues, "find", lambda self, text, in_runs: iter(()))


def _nothing_left_in_base64(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Residue, "_is_encoded_in", lambda self, text, nesting: False)


@pytest.mark.parametrize("break_it", [_values_are_not_searched, _nothing_left_in_base64, _no_joining])
def test_the_figure_for_known_values_notices(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is the redaction that is broken, or the search for what is left."""
    break_it(monkeypatch)

    assert missed_by_value(1)[0] != []


def test_the_figure_for_false_hits_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that takes every named value for a secret is too greedy."""
    for module in (patterns, contexts):
        monkeypatch.setattr(module, "is_random", lambda text: True)
        monkeypatch.setattr(module, "is_example", lambda text: False)

    assert len(false_hits(200)) > 0.005 * 200
