"""``cortex-replay sweep``."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.command_run import gateway_environment
from cortex_replay.cli.handover import Handover
from cortex_replay.cli.mcp_wrapping import mcp_words, wrap_servers
from cortex_replay.cli.progress import step_bar
from cortex_replay.cli.runs import open_run, record_command_for
from cortex_replay.cli.timed_command import Tail, run_in_time
from cortex_replay.errors import InvalidRequest
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Pace
from cortex_replay.gateway.proxy import ProxyRules

__all__ = ["sweep_command"]

_DEFAULT = ("429:0.05", "500", "529", "reset", "cut", "malformed-json", "malformed-tool", "error-event")
"""Those that a client finds out at once. Of a timeout and a stall it has to grow tired first."""
_DEFAULT_OF_TOOLS = ("tool-error", "tool-fail", "tool-shape", "tool-death")
"""The same of calls of tools over MCP."""
_ALL = (*_DEFAULT, *_DEFAULT_OF_TOOLS)
_FAILED_BEFORE = 1

Verdict = Literal["survived", "failed", "missed", "hung", "not applicable"]


@dataclass(frozen=True)
class _Cell:
    """One call, and how it is to fail."""

    turn: int
    """Which call of a model, or of a tool."""
    kind: Fault
    """Without a time."""
    fault: Fault
    tool: str = ""
    """The server and the name of the tool, if it is the call of one."""


@dataclass(frozen=True)
class _Run:
    """One run of the command."""

    turn: int
    fault: str
    verdict: Verdict
    status: int | None
    calls: int
    tool: str
    """The server and the name of the tool that fails; empty if it is a model."""
    log: str
    """The end of what it printed, where that is kept."""


@dataclass(frozen=True)
class _Calls:
    """What the command asks for without a fault."""

    models: int
    tools: Sequence[tuple[str, str]]
    """The server and the name of each tool that is called."""

    def cells(self, kinds: Sequence[Fault], turns: Sequence[int]) -> list[_Cell]:
        """Every call with every fault that fits it, models first."""
        cells = [
            _Cell(turn, kind, replace(kind, turn=turn))
            for turn in range(1, self.models + 1)
            for kind in kinds
            if not kind.is_of_tools
        ]
        counted: Counter[str] = Counter()
        for turn, (server, tool) in enumerate(self.tools, start=1):
            fitting = [kind for kind in kinds if kind.is_of_tools and kind.fits(server, tool)]
            counted.update({kind.detail for kind in fitting})  # each that names tools counts its own
            cells += [
                _Cell(turn, kind, replace(kind, turn=counted[kind.detail]), f"{server}/{tool}")
                for kind in fitting
            ]
        return [cell for cell in cells if not turns or cell.turn in turns]

    def __str__(self) -> str:
        told = [output.count(self.models, "call")] if self.models or not self.tools else []
        return " and ".join([*told, *([output.count(self.tools, "tool call")] if self.tools else [])])


@options.command(
    "sweep",
    epilog="""Examples:

  cortex-replay sweep -- python agent.py
  cortex-replay sweep --fault 429 --fault timeout --seconds 30 -- npm test
  cortex-replay sweep --allow malformed-json --json -- pytest tests/agent.py

Exit status:
  0  the command survived every fault that it was expected to
  1  it fails without any fault, or calls no model
  2  wrong usage
  3  it asks for something that is not recorded
  4  it did not survive one
  5  the store is not what its index says
""",
    runs_command=True,
)
@options.store_option
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND",
    help=f"Only these.  [default: {', '.join(kind.partition(':')[0] for kind in _ALL)}]",
)
@click.option("--turn", "turns", multiple=True, type=click.IntRange(1), help="Only these calls. Repeatable.")
@click.option("--allow", multiple=True, metavar="KIND", help="A fault that it need not survive. Repeatable.")
@click.option("--seconds", type=click.FloatRange(0.1), default=60.0, show_default=True, help="For one run.")
@click.option("--show-output", is_flag=True, help="Let the command print, each time.")
@options.pass_env_option
@options.mcp_options
@options.json_option
@click.pass_context
def sweep_command(
    ctx: click.Context,
    /,
    store: Path | None,
    faults: tuple[str, ...],
    turns: tuple[int, ...],
    allow: tuple[str, ...],
    seconds: float,
    show_output: bool,
    pass_env: tuple[str, ...],
    as_json: bool,
    **servers: Any,
) -> None:
    """Run a recorded command once for every call and fault, and tell which it survives.

    First it runs without a fault, to see that it is recorded and how many calls it makes, to models and of
    tools over MCP. Then each of these fails once in each way, and the recording goes on. It survives if the
    command ends with 0. Variables that hold secrets are withheld from it, as in replay.
    """
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the command behind --: cortex-replay sweep -- python agent.py")
    kinds = [_kind(kind) for kind in faults or _ALL]
    allowed = {_kind(kind).kind for kind in allow}
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    handover = Handover.plan(os.environ, pass_env)
    root = options.store_root(ctx, store)
    sweeper = _Sweeper(command, root, seconds, handover, servers, show_output=show_output, keep_logs=as_json)
    calls = sweeper.without_faults()
    if calls is None:
        ctx.exit(sweeper.status)
    cells = calls.cells(kinds, turns)
    if not cells:
        raise click.UsageError(f"the command makes {calls}; --turn and --fault leave none of them")
    with step_bar(cells, "sweeping") as bar:
        runs = [sweeper.with_fault(cell) for cell in bar]
    pairs = list(zip(cells, runs, strict=True))
    unexpected = [
        cell
        for cell, run in pairs
        if run.verdict in ("failed", "missed", "hung") and cell.kind.kind not in allowed
    ]
    given = [*(word for name in pass_env for word in ("--pass-env", name)), *mcp_words(servers)]
    status = options.DRIFT if unexpected else 0
    options.settle(ctx, status)
    if as_json:
        told = [vars(run) | {"again": _again(cell, root, given, command)} for cell, run in pairs]
        document = {"calls": calls.models, "tool_calls": len(calls.tools)}
        output.print_json({**document, "runs": told, "survived": not unexpected})
    else:
        _print(pairs, allowed)
        if unexpected:
            failed = output.count(unexpected, "run")
            again = _again(unexpected[0], root, given, command)
            output.talk(f"error: {failed} did not survive; to see the first one:\n  {again}")
        else:
            output.talk(f"survived: {calls}, {output.count(runs, 'run')}")
    ctx.exit(status)


def _kind(text: str) -> Fault:
    try:
        return Fault.parse(text.partition("@")[0])
    except InvalidRequest as error:
        raise click.UsageError(error.reason) from None


class _Sweeper:
    """Runs the command behind a gateway, again and again."""

    def __init__(
        self,
        command: Sequence[str],
        root: Path,
        seconds: float,
        handover: Handover,
        servers: Mapping[str, Any],
        *,
        show_output: bool,
        keep_logs: bool,
    ) -> None:
        self._command = command
        self._root = root
        self._seconds = seconds
        self._handover = handover
        self._servers = servers
        self._shows_output = show_output
        self._keeps_logs = keep_logs and not show_output
        self._log = ""
        self._has_told = False
        self._has_run = False
        self.status = 0

    def without_faults(self) -> _Calls | None:
        """What the command asks for; ``None`` if it does not get that far, with the status to end with."""
        status, ledger, tools = self._run(Faults())
        if ledger["broken"]:
            self.status = 5
            output.talk("error: the store is not what its index says")
        elif missing := [miss for miss in ledger["misses"] if not miss["is_probe"]]:
            self.status = 3
            output.talk(output.quote(missing[0]["explanation"]))
        elif status != 0:
            self.status = _FAILED_BEFORE
            ended = "does not end in time" if status is None else f"ends with status {status}"
            hint = "" if self._shows_output else "; --show-output lets it say why"
            output.talk(f"error: without any fault, the command {ended}{hint}")
        elif not ledger["hits"]:
            self.status = _FAILED_BEFORE
            output.talk("error: no call came to the gateway")
        return None if self.status else _Calls(ledger["hits"] - _hits_of_servers(ledger), tools)

    def with_fault(self, cell: _Cell) -> _Run:
        faults = Faults([cell.fault], per_scope=False)
        status, ledger, _ = self._run(faults)
        verdict: Verdict = "survived" if status == 0 else "hung" if status is None else "failed"
        if verdict == "failed" and ledger["misses"]:
            verdict = "missed"
        if not faults.struck:
            verdict = "not applicable"
        calls = ledger["hits"] - _hits_of_servers(ledger)
        return _Run(cell.turn, _name_of(cell.kind), verdict, status, calls, cell.tool, self._log)

    def _run(self, faults: Faults) -> tuple[int | None, Mapping[str, Any], Sequence[tuple[str, str]]]:
        """How the command ended, what it asked for, and the tools that it called."""
        how = record_command_for(self._root, self._command, mcp_words(self._servers))
        run = open_run(self._root, {"mode": "replay"}, default="replay", how_to_record=how)
        guard = ProxyRules(refuse=run.ledger.bypass)
        with gateway_environment(run, faults, self._handover, pace=Pace(), proxy=guard) as environment:
            try:
                with wrap_servers(
                    run, self._command, environment, self._servers, is_silent=self._has_run
                ) as wrapped:
                    self._has_run = True
                    status = self._run_command(wrapped.command, wrapped.environment)
            except OSError as error:
                raise click.UsageError(f"{self._command[0]} cannot be run: {error.strerror}") from None
        if status and not faults.struck and not self._has_told:
            self._has_told = True
            self._handover.tell(environment)
        return status, run.ledger.to_dict(run.store), run.call_rules.called

    def _run_command(self, command: Sequence[str], environment: Mapping[str, str]) -> int | None:
        if not self._keeps_logs:
            into = None if self._shows_output else subprocess.DEVNULL
            return run_in_time(command, environment, self._seconds, into)
        with Tail() as tail:
            status = run_in_time(command, environment, self._seconds, tail.descriptor)
        self._log = tail.text()
        return status


def _end_on_sigterm(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


_CELLS: Mapping[Verdict, str] = {
    "survived": "ok",
    "failed": "FAILED",
    "missed": "MISSED",
    "hung": "HUNG",
    "not applicable": "-",
}


def _print(pairs: Sequence[tuple[_Cell, _Run]], allowed: set[str]) -> None:
    """The matrices, of models and of tools: a row for each call, a column for each fault."""
    of_models = [pair for pair in pairs if not pair[0].tool]
    of_tools = [pair for pair in pairs if pair[0].tool]
    if of_models:
        _print_matrix("call", of_models, lambda cell: str(cell.turn), allowed)
    if of_models and of_tools:
        output.echo()
    if of_tools:
        _print_matrix("tool call", of_tools, lambda cell: f"{cell.turn} {cell.tool}", allowed)


def _print_matrix(
    title: str,
    pairs: Sequence[tuple[_Cell, _Run]],
    row_of: Callable[[_Cell], str],
    allowed: set[str],
) -> None:
    names = list(dict.fromkeys(_name_of(cell.kind) for cell, _ in pairs))
    rows: dict[str, dict[str, str]] = {}
    for cell, run in pairs:
        shown = _CELLS[run.verdict]
        shown = shown.lower() if cell.kind.kind in allowed else shown
        rows.setdefault(output.escape(row_of(cell)), {})[_name_of(cell.kind)] = shown
    first = max(map(len, [title, *rows]))
    widths = [max(len(name), 7) for name in names]

    def line(head: str, cells: Iterable[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"{head:<{first}}  {'  '.join(padded)}".rstrip()

    output.echo(line(title, names))
    for row, found in rows.items():
        output.echo(line(row, (found.get(name, "") for name in names)))


def _name_of(kind: Fault) -> str:
    return str(kind).partition("@")[0]


def _hits_of_servers(ledger: Mapping[str, Any]) -> int:
    """How many of the hits are calls to MCP servers."""
    return sum(int(counted.get("hits", 0)) for counted in ledger.get("servers", {}).values())


def _again(cell: _Cell, root: Path, given: Sequence[str], command: Sequence[str]) -> str:
    """What makes the same run once more, with its output, as it can be pasted into a shell."""
    fault = ["--fault", str(cell.fault)]
    return shlex.join(["cortex-replay", "replay", "--store", str(root), *fault, *given, "--", *command])
