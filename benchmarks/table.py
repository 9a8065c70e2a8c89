"""One measurement with its goal, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["Goal", "Row", "as_json", "as_text", "cells", "from_json", "titles"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Goal:
    """What is promised about one measurement.

    "slower" and "faster" bound a ratio to the peer: at most so many times its time, or at least
    so many times as fast. "seconds" and "bytes" bound the measurement itself.
    """

    kind: Literal["slower", "faster", "seconds", "bytes"]
    limit: float

    def is_met(self, ours: float, peer: float | None) -> bool | None:
        """Whether the goal is met; ``None`` when its peer was not measured."""
        if self.kind in ("seconds", "bytes"):
            return ours <= self.limit
        if peer is None:
            return None
        return ours <= self.limit * peer if self.kind == "slower" else ours * self.limit <= peer

    def __str__(self) -> str:
        if self.kind in ("seconds", "bytes"):
            return f"at most {(_time if self.kind == 'seconds' else _size)(self.limit)}"
        return f"at most {self.limit:g}x" if self.kind == "slower" else f"{self.limit:g}x faster"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. Times are seconds per ``unit``, by the clock of ``clock``; or it is of bytes.

    A ``what`` that begins with a space goes on with the row before it. ``note`` has figures that differ from
    run to run, as a ``what`` must not.
    """

    bench: str
    what: str
    ours: float
    peer_name: str = ""
    peer: float | None = None
    goal: Goal | None = None
    unit: Literal["run", "call", "row", "chunk"] = "run"
    clock: Literal["CPU", "wall", "bytes"] = "CPU"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our time as a multiple of the peer's."""
        return None if self.peer is None else self.ours / self.peer

    @property
    def is_met(self) -> bool | None:
        return None if self.goal is None else self.goal.is_met(self.ours, self.peer)


def titles(rows: Sequence[Row]) -> list[str]:
    """What tells a row of a bench from all others, in any run.

    Raises:
        ValueError: If two rows have the same title.
    """
    found = []
    above = ""
    for row in rows:
        if not row.what.startswith(" "):
            above = row.what
        what = row.what if row.what == above else f"{above}: {row.what.strip()}"
        found.append("; ".join(filter(None, (what, row.peer_name, row.clock))))
    if twice := sorted({title for title in found if found.count(title) > 1}):
        raise ValueError(f"two rows of one bench have the same title: {', '.join(twice)}")
    return found


def as_json(row: Row) -> dict[str, Any]:
    """A row as it is written to a file, in seconds or bytes. Ratio and result are for readers of the file."""
    row = replace(row, ours=_rounded(row.ours), peer=None if row.peer is None else _rounded(row.peer))
    return {
        "bench": row.bench,
        "what": row.what,
        "note": row.note,
        "unit": row.unit,
        "clock": row.clock,
        "ours": row.ours,
        "peer_name": row.peer_name,
        "peer": row.peer,
        "ratio": None if row.ratio is None else _rounded(row.ratio),
        "goal": None if row.goal is None else {"kind": row.goal.kind, "limit": row.goal.limit},
        "met": row.is_met,
    }


def from_json(document: dict[str, Any]) -> Row:
    """The row that a file tells of."""
    fields = {name: value for name, value in document.items() if name not in ("ratio", "met", "goal")}
    return Row(**fields, goal=Goal(**document["goal"]) if document["goal"] else None)


def as_text(rows: Sequence[Row]) -> str:
    """The table for a reader."""
    lines: list[tuple[str, ...]] = [("bench", "what", "ours", "peer", "", "ratio", "goal", "")]
    lines += [(row.bench, *cells(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(map(_aligned, line, widths, range(len(line)))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def cells(row: Row) -> tuple[str, ...]:
    """What is shown of a row: what, ours, the peer and its time, ratio, goal and result."""
    show = _size if row.clock == "bytes" else _time
    what = f"{row.what}: {row.note}" if row.note else row.what
    return (
        f"{what}, wall clock" if row.clock == "wall" else what,
        show(row.ours),
        row.peer_name,
        "" if row.peer is None else show(row.peer),
        _ratio(row),
        "" if row.goal is None else str(row.goal),
        _result(row),
    )


def _result(row: Row) -> str:
    if row.peer_name and row.peer is None:
        return "skipped: no peer"
    if row.is_met is None:
        return ""
    return "met" if row.is_met else "NOT met"


def _ratio(row: Row) -> str:
    """The ratio in the direction in which the goal speaks, or in which it is above one."""
    if row.ratio is None:
        return ""
    is_faster = row.goal.kind == "faster" if row.goal else row.ratio < 1
    factor = 1 / row.ratio if is_faster else row.ratio
    return f"{factor:,.{2 if factor < 100 else 0}f}x{' faster' if is_faster else ''}"


def _rounded(figure: float) -> float:
    """As many digits as a measurement has, so that a file of figures can be read."""
    return float(f"{figure:.{_DIGITS}g}")


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in (2, 4) else cell.ljust(width)


def _size(count: float) -> str:
    return f"{count / 1000:,.0f} kB"


def _time(seconds: float) -> str:
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    number = seconds / size
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
