"""What came of the suites, as `docs/migrating.md` has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from integration.suites.comparison import Comparison

__all__ = ["render", "update"]

BEGIN: Final = "<!-- suites: written by make suites -->"
END: Final = "<!-- end of suites -->"
_MOST_SHOWN: Final = 160


def update(guide: Path, comparisons: Iterable[Comparison]) -> None:
    """Put the table between its marks."""
    text = guide.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    guide.write_text(f"{before}{BEGIN}\n{render(comparisons)}{END}{after}", "utf-8")


def render(comparisons: Iterable[Comparison]) -> str:
    """The table, and a list of every test that differs."""
    all_of_them = list(comparisons)
    lines = [
        "| suite | with vcrpy | moved over | other question | other cause | CPU, vcrpy | CPU, moved over |",
        "|---|---|---|---|---|---|---|",
        *map(_row, all_of_them),
        "",
        *(line for one in all_of_them for line in _details(one)),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(one: Comparison) -> str:
    cells = (
        f"{one.suite} {one.version}",
        one.with_vcrpy,
        one.moved,
        one.other_questions,
        len(one.unexplained),
        f"{one.cpu_vcrpy_s:.1f} s",
        f"{one.cpu_moved_s:.1f} s",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _details(one: Comparison) -> Iterator[str]:
    """Tests that differ in one way stand on one line, with the first of them."""
    if not one.differences and not one.absent:
        return
    yield f"**{one.suite}**"
    yield ""
    asked = Counter(_shape(difference.other_question) for difference in one.differences)
    for difference in one.differences:
        if not difference.other_question:
            yield f"* `{_test(difference.test)}`: {_cell(difference.reason)}"
        elif count := asked.pop(_shape(difference.other_question), 0):
            tests = f"`{_test(difference.test)}`" + (f" and {count - 1} more" if count > 1 else "")
            yield f"* {tests}: asks another question: {_cell(difference.other_question)}"
    if one.absent:
        yield f"* not in the clone, so neither run has them: {', '.join(map(_cell, one.absent))}"
    yield ""


def _shape(text: str) -> str:
    """What differs, without the values."""
    return re.sub(r"('[^']*'|\d+|\S+ → \S+)", "", text)[:_MOST_SHOWN]


def _test(name: str) -> str:
    return name.partition("::")[2].replace("`", "") or name


def _cell(text: str) -> str:
    text = text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"
