"""The published figures: ``docs/benchmarks.json``, by kind of machine and by bench.

A run is compared with the last figures of the same kind of machine, and replaces those of the benches that it
ran where it is published. The page is made of the same file (``benchmarks/page.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.table import Row, as_json, from_json, titles

__all__ = [
    "MUCH_SLOWER",
    "Benches",
    "Measured",
    "Slower",
    "merged",
    "parse",
    "read",
    "rendered",
    "slower_rows",
]

MUCH_SLOWER = 1.15
_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of one bench, and what they were measured with."""

    date: str
    commit: str
    load: float
    calibration: float
    versions: Mapping[str, str]
    rows: tuple[Row, ...]


Benches = dict[str, Measured]
"""By the name of a bench."""


@dataclass(frozen=True, slots=True)
class Slower:
    """A row that takes longer than it is published to."""

    bench: str
    title: str
    factor: float
    by: str

    def __str__(self) -> str:
        return f"{self.bench}: {self.title}: {self.factor:.2f} times the published figure, {self.by}"


def read(path: Path) -> dict[str, Benches]:
    """What is published, by kind of machine; nothing if there is no file yet."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def parse(text: str) -> dict[str, Benches]:
    """The figures that a file tells of."""
    return {
        machine: {bench: _measured(document) for bench, document in benches.items()}
        for machine, benches in json.loads(text)["machines"].items()
    }


def rendered(machines: Mapping[str, Benches]) -> str:
    """The file that tells of these figures."""
    document = {
        machine: {bench: _document(measured) for bench, measured in benches.items()}
        for machine, benches in sorted(machines.items())
    }
    return json.dumps({"machines": document}, indent=1, ensure_ascii=False) + "\n"


def merged(
    machines: Mapping[str, Benches], machine: str, new: Benches, order: Iterable[str]
) -> dict[str, Benches]:
    """All that is published once ``new`` is: other machines and other benches keep their figures.

    Args:
        machines: What is published so far.
        machine: The kind of machine that ``new`` was measured on.
        new: The benches of this run.
        order: The names of all benches there are; those of others are dropped.
    """
    together = machines.get(machine, {}) | new
    return {**machines, machine: {bench: together[bench] for bench in order if bench in together}}


def slower_rows(before: Benches, now: Benches) -> Iterator[Slower]:
    """The rows of this run that take much longer than the published ones of the same kind of machine."""
    for bench, measured in now.items():
        if bench not in before:
            continue
        old = before[bench]
        by_title = dict(zip(titles(old.rows), old.rows, strict=True))
        for title, row in zip(titles(measured.rows), measured.rows, strict=True):
            if title in by_title:
                factor, by = _change(old, by_title[title], measured, row)
                if factor > MUCH_SLOWER:
                    yield Slower(bench, title, factor, by)


def _change(old: Measured, before: Row, new: Measured, now: Row) -> tuple[float, str]:
    """How many times as slow a row is, and by what that is judged."""
    if before.ours <= 0:  # what is measured as a difference may have been too small to see
        return 1.0, ""
    if before.ratio and now.ratio:
        return now.ratio / before.ratio, f"as a ratio to {now.peer_name}"
    if now.clock == "bytes":
        return now.ours / before.ours, "in bytes"
    speed = new.calibration / old.calibration
    return now.ours / before.ours / speed, "as time, scaled with how fast the machine was"


def _measured(document: _Json) -> Measured:
    rows = tuple(map(from_json, document["rows"]))
    return Measured(**{**document, "rows": rows})


def _document(measured: Measured) -> _Json:
    return {
        "date": measured.date,
        "commit": measured.commit,
        "load": measured.load,
        "calibration": float(f"{measured.calibration:.4g}"),
        "versions": dict(measured.versions),
        "rows": [as_json(row) for row in measured.rows],
    }
