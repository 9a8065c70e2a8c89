"""One measurement with its goal, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Goal", "Row", "as_json", "as_text"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


@dataclass(frozen=True, slots=True)
class Goal:
    """What is promised about one measurement.

    "slower" and "faster" bound a ratio to the peer: at most so many times its time, or at least
    so many times as fast. "seconds" bounds the time itself.
    """

    kind: Literal["slower", "faster", "seconds"]
    limit: float

    def is_met(self, ours: float, peer: float | None) -> bool | None:
        """Whether the goal is met; ``None`` when its peer was not measured."""
        if self.kind == "seconds":
            return ours <= self.limit
        if peer is None:
            return None
        return ours <= self.limit * peer if self.kind == "slower" else ours * self.limit <= peer

    def __str__(self) -> str:
        if self.kind == "seconds":
            return f"at most {_time(self.limit)}"
        return f"at most {self.limit:g}x" if self.kind == "slower" else f"{self.limit:g}x faster"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. Times are seconds per ``unit``, by the clock of ``clock``; or it is of bytes."""

    bench: str
    what: str
    ours: float
    peer_name: str = ""
    peer: float | None = None
    goal: Goal | None = None
    unit: Literal["run", "call", "row", "chunk"] = "run"
    clock: Literal["CPU", "wall", "bytes"] = "CPU"

    @property
    def ratio(self) -> float | None:
        """Our time as a multiple of the peer's."""
        return None if self.peer is None else self.ours / self.peer

    @property
    def is_met(self) -> bool | None:
        return None if self.goal is None else self.goal.is_met(self.ours, self.peer)


def as_json(row: Row) -> dict[str, str | float | bool | None]:
    """A row as it is written to a file, in plain units and unrounded."""
    amount = "bytes" if row.clock == "bytes" else "seconds"
    return {
        "bench": row.bench,
        "what": row.what,
        "unit": row.unit,
        "clock": row.clock,
        f"ours_{amount}": row.ours,
        "peer": row.peer_name or None,
        f"peer_{amount}": row.peer,
        "ratio": row.ratio,
        "goal": None if row.goal is None else str(row.goal),
        "met": row.is_met,
    }


def as_text(rows: Sequence[Row]) -> str:
    """The table for a reader."""
    lines: list[tuple[str, ...]] = [("bench", "what", "ours", "peer", "", "ratio", "goal", "")]
    lines += [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(map(_aligned, line, widths, range(len(line)))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def _cells(row: Row) -> tuple[str, ...]:
    show = _size if row.clock == "bytes" else _time
    return (
        row.bench,
        f"{row.what}, wall clock" if row.clock == "wall" else row.what,
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


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in (2, 4) else cell.ljust(width)


def _size(count: float) -> str:
    return f"{count / 1000:,.0f} kB"


def _time(seconds: float) -> str:
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    number = seconds / size
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
