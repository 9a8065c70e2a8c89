"""``docs/benchmarks.md``, made of the published figures and of nothing else that can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.published import Benches, Measured
from benchmarks.sentences import ABOUT, why_missed
from benchmarks.table import Row, cells, titles

__all__ = ["page"]

_TOP = """\
<!-- Made by `make bench PUBLISH=1` from benchmarks.json. Edit the code in benchmarks/ instead. -->

# Benchmarks

How fast cortex-replay is, beside other programs that do the same work, or the part of it that cannot be
left out. `make bench` measures all of it again on your machine. If yours is of a kind below, it names each
row that became slower by more than 15 %. `make bench PUBLISH=1` writes this page.

* Times are CPU time, the smallest of several runs, unless a row says *wall clock*. Ours and the peer's are
  measured in turn, in one run. Compare ratios rather than times: other work on the machine slows down both.
* A ratio such as 1.20x is our time as a multiple of the peer's. *2.00x faster* is the peer's time as a
  multiple of ours.
* The load is how many processes wanted a core in the minute before. Each table is of one run; the tables of
  a machine may be of several.
"""
_HEAD = "| what | ours | peer | its time | ratio | goal | |\n|---|--:|---|--:|--:|---|---|"


def page(machines: Mapping[str, Benches]) -> str:
    """The page that shows these figures."""
    return "\n".join(
        [_TOP, *(line for machine in sorted(machines) for line in _machine(machine, machines[machine]))]
    )


def _machine(machine: str, benches: Benches) -> Iterator[str]:
    yield f"## {machine}\n"
    rows = [row for measured in benches.values() for row in measured.rows]
    with_goal = [row for row in rows if row.is_met is not None]
    yield f"{sum(bool(row.is_met) for row in with_goal)} of {len(with_goal)} goals are met.\n"
    for bench, measured in benches.items():
        yield f"### {bench}\n"
        yield f"{ABOUT[bench]}\n"
        yield _HEAD
        yield from map(_line, measured.rows)
        yield ""
        yield from _missed(bench, measured)
        yield _how(bench, measured)


def _line(row: Row) -> str:
    what, *others = cells(row)
    what = f"… {what.strip()}" if what.startswith(" ") else what
    *others, result = others
    shown = [cell.replace("|", r"\|") for cell in (what, *others)]
    return f"| {' | '.join([*shown, f'**{result}**' if result == 'NOT met' else result])} |"


def _missed(bench: str, measured: Measured) -> Iterator[str]:
    reasons = [
        f"* *{title}*: {why_missed(bench, title) or 'not explained yet.'}"
        for title, row in zip(titles(measured.rows), measured.rows, strict=True)
        if row.is_met is False
    ]
    if reasons:
        yield "Why a goal is missed:\n"
        yield from reasons
        yield ""


def _how(bench: str, measured: Measured) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in measured.versions.items())
    return (
        f"Measured on {measured.date} at commit {measured.commit}, beside a load of {measured.load:g}, "
        f"with {versions}: `python benchmarks/run.py {bench}`\n"
    )
