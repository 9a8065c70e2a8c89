"""``cortex-replay sweep``."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from cortex_replay.cli import options, output
from cortex_replay.cli.command_run import Handover, gateway_environment
from cortex_replay.cli.mcp_wrapping import wrap_servers
from cortex_replay.cli.progress import step_bar
from cortex_replay.cli.runs import open_run, record_command_for
from cortex_replay.errors import InvalidRequest
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Pace
from cortex_replay.gateway.proxy import ProxyRules

__all__ = ["sweep_command"]

_DEFAULT = ("429:0.05", "500", "529", "reset", "cut", "malformed-json", "malformed-tool", "error-event")
"""Those that a client finds out at once. Of a timeout and a stall it has to grow tired first."""
_FAILED_BEFORE = 1

Verdict = Literal["survived", "failed", "missed", "hung", "not applicable"]


@dataclass(frozen=True)
class _Run:
    """One run of the command."""

    turn: int
    fault: str
    verdict: Verdict
    status: int | None
    calls: int


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
    help=f"Only these.  [default: {', '.join(kind.partition(':')[0] for kind in _DEFAULT)}]",
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

    First it runs without a fault, to see that it is recorded and how many calls it makes. Then each of
    these fails once in each way, and the recording goes on. It survives if the command ends with 0.
    Variables that hold secrets are withheld from it, as in replay.
    """
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the command behind --: cortex-replay sweep -- python agent.py")
    kinds = [_kind(kind) for kind in faults or _DEFAULT]
    allowed = {_kind(kind).kind for kind in allow}
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    handover = Handover.plan(os.environ, pass_env)
    root = options.store_root(ctx, store)
    sweeper = _Sweeper(command, root, seconds, handover, servers, show_output=show_output)
    calls = sweeper.without_faults()
    if not calls:
        ctx.exit(sweeper.status)
    runs: list[_Run] = []
    wanted = [turn for turn in range(1, calls + 1) if not turns or turn in turns]
    if not wanted:
        raise click.UsageError(f"the command makes {output.count(calls, 'call')}; --turn names none of them")
    with step_bar([(turn, kind) for turn in wanted for kind in kinds], "sweeping") as bar:
        for turn, kind in bar:
            runs.append(sweeper.with_fault(kind, turn))
    unexpected = [
        run
        for run in runs
        if run.verdict in ("failed", "missed", "hung") and _kind(run.fault).kind not in allowed
    ]
    status = options.DRIFT if unexpected else 0
    options.settle(ctx, status)
    if as_json:
        told = [vars(run) | {"again": _again(run, root, pass_env, command)} for run in runs]
        output.print_json({"calls": calls, "runs": told, "survived": not unexpected})
    else:
        _print(runs, kinds, wanted, allowed)
        if unexpected:
            failed = output.count(unexpected, "run")
            again = _again(unexpected[0], root, pass_env, command)
            output.talk(f"error: {failed} did not survive; to see the first one:\n  {again}")
        else:
            output.talk(f"survived: {output.count(calls, 'call')}, {output.count(runs, 'run')}")
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
    ) -> None:
        self._command = command
        self._root = root
        self._seconds = seconds
        self._handover = handover
        self._servers = servers
        self._shows_output = show_output
        self._has_told = False
        self._has_run = False
        self.status = 0

    def without_faults(self) -> int:
        """How many calls the command makes; 0 if it does not get that far, with the status to end with."""
        faults = Faults()
        status, ledger = self._run(faults)
        if ledger["broken"]:
            self.status = 5
            output.talk("error: the store is not what its index says")
        elif ledger["misses"]:
            self.status = 3
            output.talk(output.quote(ledger["misses"][0]["explanation"]))
        elif status != 0:
            self.status = _FAILED_BEFORE
            ended = "does not end in time" if status is None else f"ends with status {status}"
            hint = "" if self._shows_output else "; --show-output lets it say why"
            output.talk(f"error: without any fault, the command {ended}{hint}")
        elif not ledger["hits"]:
            self.status = _FAILED_BEFORE
            output.talk("error: no call came to the gateway")
        return 0 if self.status else int(ledger["hits"])

    def with_fault(self, kind: Fault, turn: int) -> _Run:
        fault = Fault(kind.kind, kind.detail, turn)
        faults = Faults([fault], per_scope=False)
        status, ledger = self._run(faults)
        verdict: Verdict = "survived" if status == 0 else "hung" if status is None else "failed"
        if verdict == "failed" and ledger["misses"]:
            verdict = "missed"
        if not faults.struck:
            verdict = "not applicable"
        return _Run(turn, str(kind).partition("@")[0], verdict, status, int(ledger["hits"]))

    def _run(self, faults: Faults) -> tuple[int | None, Mapping[str, Any]]:
        how = record_command_for(self._root, self._command)
        run = open_run(self._root, {"mode": "replay"}, default="replay", how_to_record=how)
        guard = ProxyRules(refuse=run.ledger.bypass)
        with gateway_environment(run, faults, self._handover, pace=Pace(), proxy=guard) as environment:
            into = None if self._shows_output else subprocess.DEVNULL
            try:
                with wrap_servers(
                    run, self._command, environment, self._servers, is_silent=self._has_run
                ) as wrapped:
                    self._has_run = True
                    status = _run_command(wrapped.command, wrapped.environment, into, self._seconds)
            except OSError as error:
                raise click.UsageError(f"{self._command[0]} cannot be run: {error.strerror}") from None
        if status and not faults.struck and not self._has_told:
            self._has_told = True
            self._handover.tell(environment)
        return status, run.ledger.to_dict(run.store)


def _run_command(
    command: Sequence[str], environment: Mapping[str, str], into: int | None, seconds: float
) -> int | None:
    """How a command ended; ``None`` if it did not in time. Whatever it started ends with it."""
    with subprocess.Popen(
        command, env=dict(environment), stdout=into, stderr=into, start_new_session=True
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _end_on_sigterm(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


_CELLS: Mapping[Verdict, str] = {
    "survived": "ok",
    "failed": "FAILED",
    "missed": "MISSED",
    "hung": "HUNG",
    "not applicable": "-",
}


def _print(runs: Sequence[_Run], kinds: Sequence[Fault], turns: Sequence[int], allowed: set[str]) -> None:
    """The matrix: a row for each call, a column for each fault."""
    names = [str(kind).partition("@")[0] for kind in kinds]
    found = {(run.turn, run.fault): run.verdict for run in runs}
    widths = [max(len(name), 7) for name in names]
    output.echo(
        "call  " + "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
    )
    for turn in turns:
        cells = [_CELLS[found[turn, name]] for name in names]
        shown = [
            cell.lower() if _kind(name).kind in allowed else cell
            for cell, name in zip(cells, names, strict=True)
        ]
        line = "  ".join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True))
        output.echo(f"{turn:<4}  {line}".rstrip())


def _again(run: _Run, root: Path, pass_env: Sequence[str], command: Sequence[str]) -> str:
    """What makes the same run once more, with its output, as it can be pasted into a shell."""
    passed = [word for name in pass_env for word in ("--pass-env", name)]
    fault = ["--fault", f"{run.fault}@{run.turn}"]
    return shlex.join(["cortex-replay", "replay", "--store", str(root), *fault, *passed, "--", *command])
