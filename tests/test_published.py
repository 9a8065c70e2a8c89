"""What is published of runs is what the runs found: pages are made of files, and prose quotes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from integration.proof.catalogue import PROOFS
from integration.proof.figures import FILE, Number, Proven, Row, figures_in, parse, read, rendered
from integration.proof.page import page, shown
from integration.proof.prose import MARK, PROSE, restated

ROOT: Final = Path(__file__).parent.parent
COUNTED: Final = re.compile(
    r"\b\d[\d,.]*\d? (?:kills|crashes|losses of power|bit flips|flipped bits|planted (?:bugs|secrets))\b"
    r"|\b\d[\d,.]*\d? (?:clean texts|mutants)\b"
    r"|\b\d[\d,.]* of \d[\d,.]*\d (?:secrets|kills|bugs|calls) (?:were|are) (?:lost|leaked|caught|found)\b"
    r"|\b\d[\d.,]* ?(?:ms|µs|%|times)(?: as)? (?:faster|slower|of vcrpy)\b",
    re.IGNORECASE,
)
"""Words for what only a run can tell."""
BLOCKS: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FIGURES: Final = figures_in(read())


def wrong_marks(text: str, figures: Mapping[str, Number]) -> list[str]:
    """Marked figures that are not what a run found."""
    known = {name: shown(number) for name, number in figures.items()}
    marks = [(match["name"], match["text"]) for match in MARK.finditer(text)]
    return [
        f"{name}: says {said}, and is {known.get(name, 'unknown')}"
        for name, said in marks
        if said != known.get(name)
    ]


def unmarked(text: str) -> list[str]:
    """Figures of runs that nothing holds to a file."""
    return [match[0] for match in COUNTED.finditer(MARK.sub("", BLOCKS.sub("", text)))]


def test_the_page_of_proofs_is_what_its_file_says() -> None:
    assert FILE.with_suffix(".md").read_text("utf-8") == page(read(), PROOFS), "run: make proof"


def test_the_file_is_as_a_run_writes_it() -> None:
    text = FILE.read_text("utf-8")

    assert rendered(parse(text)) == text
    assert list(read()) == [proof.name for proof in PROOFS if proof.name in read()]


def test_no_two_proofs_or_rows_have_one_name() -> None:
    assert len({proof.name for proof in PROOFS}) == len(PROOFS)
    for proven in read().values():
        assert len({row.id for row in proven.rows}) == len(proven.rows)


def test_nothing_of_this_machine_is_published() -> None:
    text = FILE.read_text("utf-8")

    assert [path for path in (str(ROOT), str(Path.home()), "/tmp/", "/work/") if path in text] == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_figures_in_prose_are_those_of_the_last_run(path: Path) -> None:
    text = path.read_text("utf-8")

    assert wrong_marks(text, FIGURES) == []
    assert unmarked(text) == [], (
        "mark it (<!-- figure: NAME -->…<!-- / -->), link to the page, or leave it out"
    )


ROW: Final = Row("recorder", "cortex-replay", "a recorder", 1300, {"answers lost": 0})
PROVEN: Final = Proven("2026-11-16", "0123456789", "a machine", 1, 60, "a command", (ROW,))


def test_a_figure_that_differs_is_found() -> None:
    figures = figures_in({"kills": PROVEN})
    good = "after <!-- figure: proof.kills.recorder.cases -->1,300<!-- / --> kills of one"

    assert wrong_marks(good, figures) == unmarked(good) == []
    assert wrong_marks(good.replace("1,300", "1,301"), figures) != []
    assert wrong_marks(good.replace("recorder", "other"), figures) != []
    assert restated(good.replace("1,300", "1,301"), figures) == good
    assert wrong_marks(good, figures_in({"kills": replace(PROVEN, rows=(replace(ROW, cases=1299),))})) != []


@pytest.mark.parametrize(
    "text", ["It survived 1,300 kills.", "0 of 2,896 secrets were leaked", "twice: 3.5 times faster than it"]
)
def test_a_figure_without_a_mark_is_found(text: str) -> None:
    assert unmarked(text) != []
    assert unmarked(f"```\n{text}\n```\n") == []
