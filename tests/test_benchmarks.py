"""The benchmarks start, and what they publish is what was measured."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.page import page
from benchmarks.published import Measured, Slower, merged, parse, read, rendered, slower_rows
from benchmarks.run import FIGURES, NAMES, PAGE
from benchmarks.sentences import ABOUT, why_missed
from benchmarks.table import Goal, Row, titles

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"
HERE, ELSEWHERE = "A processor, 2 cores, Python 3.11", "Another, 8 cores, Python 3.13"
ROW = Row("full", "everything", 2.0, "a peer", 1.0, Goal("slower", 3))
ALONE = Row("start", "--help", 0.1, goal=Goal("seconds", 0.12))
BEFORE = Measured("2026-11-16", "0123456789", 0.5, 0.02, {"Python": "3.11.7"}, (ROW,))


def test_the_benchmarks_start() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_no_module_beside_them_is_taken_for_one_of_python() -> None:
    names = {path.stem for path in SCRIPT.parent.glob("*.py")}

    assert names.isdisjoint(sys.stdlib_module_names)


def test_the_page_shows_the_published_figures() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read(FIGURES))


def test_the_file_is_as_a_run_writes_it() -> None:
    """Nobody has changed a ratio or a result by hand."""
    text = FIGURES.read_text(encoding="utf-8")

    assert rendered(parse(text)) == text


def test_a_goal_that_is_missed_says_why() -> None:
    missed = [
        (bench, title)
        for benches in read(FIGURES).values()
        for bench, measured in benches.items()
        for title, row in zip(titles(measured.rows), measured.rows, strict=True)
        if row.is_met is False
    ]

    assert [row for row in missed if not why_missed(*row)] == []


def test_each_bench_says_what_it_measures() -> None:
    assert list(ABOUT) == NAMES


def test_a_kind_of_machine_names_no_machine() -> None:
    assert machine.kind().endswith(f"Python {sys.version_info.major}.{sys.version_info.minor}")
    assert str(Path.home()) not in FIGURES.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "row", [ROW, ALONE, replace(ROW, peer=None, note="7 a second", goal=None, unit="call")]
)
def test_a_row_comes_back_from_the_file(row: Row) -> None:
    machines = {HERE: {row.bench: _measured(row)}}

    assert parse(rendered(machines)) == machines


def test_a_result_is_that_of_the_figures_beside_it() -> None:
    """Both are rounded: a reader who divides them finds what is said of them."""
    row = Row("full", "everything", 1.00001, "a peer", 1.0, Goal("slower", 1))

    [read_again] = parse(rendered({HERE: {"full": _measured(row)}}))[HERE]["full"].rows

    assert read_again.is_met
    assert '"met": true' in rendered({HERE: {"full": _measured(row)}})


def test_a_row_that_became_slower_beside_its_peer_is_named() -> None:
    now = {"full": _measured(replace(ROW, ours=2.4))}

    [slower] = slower_rows({"full": BEFORE}, now)

    assert (slower.bench, slower.title) == ("full", "everything; a peer; CPU")
    assert slower.factor == pytest.approx(1.2)
    assert "1.20 times the published figure" in str(slower)


def test_a_row_is_not_slower_where_its_peer_is_as_much() -> None:
    assert not _slower(BEFORE, _measured(replace(ROW, ours=4.0, peer=2.0)))


def test_a_little_slower_is_not_named() -> None:
    assert not _slower(BEFORE, _measured(replace(ROW, ours=2.28)))


def test_a_time_without_a_peer_is_scaled_by_how_fast_the_machine_was() -> None:
    before = _measured(ALONE)
    twice = replace(ALONE, ours=0.2)

    assert not _slower(before, replace(_measured(twice), calibration=0.04))
    assert _slower(before, _measured(twice))


def test_bytes_are_not_scaled() -> None:
    row = Row("conversation", "its size", 100.0, clock="bytes")
    larger = _measured(replace(row, ours=130.0))

    assert _slower(_measured(row), replace(larger, calibration=0.04))


def test_a_row_with_another_peer_is_not_compared() -> None:
    assert not _slower(BEFORE, _measured(replace(ROW, ours=9.0, peer_name="a newer peer")))


def test_what_was_too_small_to_measure_is_not_compared() -> None:
    before = _measured(replace(ALONE, ours=-0.001))

    assert not _slower(before, _measured(ALONE))


def test_a_part_of_the_benches_replaces_its_own_rows_only() -> None:
    machines = {HERE: {"full": BEFORE, "start": _measured(ALONE)}, ELSEWHERE: {"full": BEFORE}}
    new = _measured(replace(ALONE, ours=0.05))

    together = merged(machines, HERE, {"start": new}, ("start", "full"))

    assert together == {HERE: {"start": new, "full": BEFORE}, ELSEWHERE: {"full": BEFORE}}
    assert list(together[HERE]) == ["start", "full"]


def test_a_bench_that_is_gone_goes_from_the_file() -> None:
    assert merged({HERE: {"full": BEFORE}}, HERE, {}, ("start",)) == {HERE: {}}


def test_the_page_says_what_is_missed_and_with_what_it_was_measured() -> None:
    missed = replace(ROW, ours=4.0)

    shown = page({HERE: {"full": _measured(missed)}})

    assert f"## {HERE}" in shown
    assert "0 of 1 goals are met." in shown
    assert "| everything | 4.00 s | a peer | 1.00 s | 4.00x | at most 3x | **NOT met** |" in shown
    assert "Measured on 2026-11-16 at commit 0123456789, beside a load of 0.5, with Python 3.11.7" in shown


def test_rows_below_another_are_told_apart() -> None:
    rows = [Row("b", "plain", 1), Row("b", "  p50", 1), Row("b", "streamed", 1), Row("b", "  p50", 1)]

    assert titles(rows) == ["plain; CPU", "plain: p50; CPU", "streamed; CPU", "streamed: p50; CPU"]


def test_two_rows_with_one_title_are_refused() -> None:
    with pytest.raises(ValueError, match="same title: plain; CPU"):
        titles([Row("b", "plain", 1), Row("b", "plain", 2)])


def _measured(row: Row) -> Measured:
    return replace(BEFORE, rows=(row,))


def _slower(before: Measured, now: Measured) -> list[Slower]:
    bench = now.rows[0].bench
    return list(slower_rows({bench: before}, {bench: now}))
