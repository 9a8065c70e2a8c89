"""The Run screen: what commands say of a run."""

from __future__ import annotations

from typing import Literal, TypedDict

from cortex_replay.view.shapes.change import ChangeItem

__all__ = [
    "DriftReport",
    "MissRow",
    "ProblemGroup",
    "ReportDocument",
    "RunReport",
    "ServerRow",
    "SweepCell",
    "SweepReport",
    "UnusedRow",
    "VaryingRow",
    "VerdictWord",
]

VerdictWord = Literal["survived", "failed", "missed", "hung", "not applicable"]


class MissRow(TypedDict):
    """A question that nothing was recorded for."""

    what: str
    explanation: str
    """Several lines, as a terminal shows them."""
    times: int


class ProblemGroup(TypedDict):
    """Things of one sort that went wrong."""

    title: str
    texts: list[str]


class UnusedRow(TypedDict):
    """A recording that the run did not ask for."""

    who: str
    key: str
    path: str
    scope: str


class ServerRow(TypedDict):
    """What an MCP server was asked."""

    name: str
    hits: int
    missed: int
    recorded: int
    live: int
    failed: int


class VaryingRow(TypedDict):
    """A call that is not the same in every run of ``record --again``."""

    scope: str
    runs: list[int]
    call: int | None
    question: str
    differences: list[str]
    is_noise: bool


class RunReport(TypedDict):
    """A ledger: what ``record``, ``replay`` and the plugin report."""

    mode: str
    command_status: int | None
    """``None`` for a report of the plugin."""
    counts: dict[str, int]
    """``hits``, ``missed``, ``recorded``, ``live``, ``repeated``, ``unsent``, ``failed``, ``declined``."""
    tokens: dict[str, int]
    """``prompt``, ``completion``, ``cached``, ``replayed``, ``replayed_cached``."""
    paid: str | None
    """Money with its currency; ``None`` where no prices are known."""
    saved: str | None
    misses: list[MissRow]
    problems: list[ProblemGroup]
    unused: list[UnusedRow]
    unused_count: int
    servers: list[ServerRow]
    bypassed: list[tuple[str, int]]
    """Hosts that were not reached, and how often."""
    remarks: list[tuple[str, int]]


class SweepCell(TypedDict):
    """One run of a sweep: a call, and the fault that met it."""

    turn: int
    tool: str
    """The server and the tool; empty for a call of a model."""
    fault: str
    verdict: VerdictWord
    status: int | None
    calls: int
    again: str
    """The command that makes the same run once more."""
    log: str
    """The end of what the command printed."""


class SweepReport(TypedDict):
    """``sweep --json``."""

    calls: int
    tool_calls: int
    survived: bool
    cells: list[SweepCell]


class DriftReport(TypedDict):
    """``refresh --json``, as the page shows it."""

    asked: int
    tiers: dict[str, int]
    """How many recordings have drifted how much."""
    items: list[ChangeItem]
    """With the recorded answers before, and those of today after."""
    failed: list[str]
    not_asked: list[tuple[str, int]]
    """Reasons, and how many recordings each is true of."""
    beyond_budget: int
    written: list[str]
    paid: str | None


class ReportDocument(TypedDict):
    """``report``: what a command said of a run; one of the three has something."""

    kind: Literal["run", "sweep", "drift"]
    name: str
    """Of the file."""
    runs: list[RunReport]
    varying: list[VaryingRow]
    sweep: SweepReport | None
    drift: DriftReport | None
