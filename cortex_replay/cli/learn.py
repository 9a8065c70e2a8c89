"""``cortex-replay learn``."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from cortex_replay.bindings import PlaceRule, Surroundings
from cortex_replay.cli import options, output
from cortex_replay.cli.command_run import gateway_environment, proxy_rules
from cortex_replay.cli.handover import Handover
from cortex_replay.cli.mcp_wrapping import mcp_words, wrap_servers
from cortex_replay.cli.rule_keeping import RuleKeeping, plan_keeping
from cortex_replay.cli.runs import open_run, record_command_for
from cortex_replay.config.rule_text import rule_lines
from cortex_replay.disk import absolute_path
from cortex_replay.engine.learning import Departure, Learner, Step
from cortex_replay.engine.run_names import RUN_VARIABLE
from cortex_replay.errors import FixtureIntegrityFailed, NoFixture, StoreIo
from cortex_replay.faults import Faults
from cortex_replay.gateway import Pace
from cortex_replay.run.elsewhere import Elsewhere, elsewhere

__all__ = ["learn_command"]

_MOST_SHOWN: Final = 10
_NOON: Final = 12
_GRACE_S: Final = 3.0
"""What a command gets to end by itself, once it is told to."""


@options.command(
    "learn",
    epilog="""Examples:

  cortex-replay learn --dry-run -- ./agent "write notes.txt"    which rules it would take
  cortex-replay learn -- ./agent "write notes.txt"              write them, and give recordings their new keys
  cortex-replay learn --elsewhere -- npm test                   in another directory, HOME and on another day
  cortex-replay learn --elsewhere --home-file .config/agent -- ./agent "write notes.txt"

Exit status:
  0  the command ran to its end; what was to be learned is learned
  1  no call came to the gateway, or a rule was refused: it would make two recordings one
  2  wrong usage
  3  a call is not what was recorded, and not by noise; nothing was written
  5  the store is not what its index says
""",
    runs_command=True,
)
@options.store_option
@click.option("--dry-run", is_flag=True, help="Print the rules and change nothing.")
@click.option(
    "--elsewhere",
    "is_elsewhere",
    is_flag=True,
    help="Run it in a copy of this directory, with another HOME, temporary directory and date.",
)
@click.option(
    "--home-file",
    "home_files",
    multiple=True,
    metavar="PATH",
    help="With --elsewhere: a file or folder of your HOME that the command needs. Repeatable.",
)
@click.option(
    "--copy",
    "also",
    multiple=True,
    metavar="PATH",
    help="With --elsewhere: a file or folder that git ignores and the command needs. Repeatable.",
)
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="With --elsewhere: a day such as 2027-01-31, far away; it takes the program faketime.",
)
@click.option("--keep", "keeps", is_flag=True, help="With --elsewhere: leave the copy where it is.")
@options.recorded_upstream_option
@options.proxy_options
@options.pass_env_option
@options.mcp_options
@options.json_option
@click.pass_context
def learn_command(ctx: click.Context, /, store: Path | None, **flags: Any) -> None:
    """Replay a recorded command, and make rules for what differs from run to run.

    Where a call misses, it is held against the recording at its place. If each difference is a value with a
    shape (an id, a time, a duration, a port, a process id) or one that is known, on both sides, a rule is
    made for it, and the recorded answer is given. Anything else is a change: the command is stopped, and you
    are shown what changed. Nobody is asked, and no token is spent. At the end the rules go to the
    configuration of the store, and its recordings get their new keys. If the command fails by itself, its
    status is ours, and what was learned is written all the same.
    """
    command = options.command_after_dashes(ctx)
    if not command:
        raise click.UsageError("give the command behind --: cortex-replay learn -- ./agent")
    options.check_proxy_options(flags)
    if not flags["is_elsewhere"] and any(flags[name] for name in ("home_files", "also", "day", "keeps")):
        raise click.UsageError("--home-file, --copy, --date and --keep go with --elsewhere")
    root = absolute_path(options.store_root(ctx, store))
    with _place(flags) as place:
        learner, status = _run(command, root, flags, place)
    ctx.exit(_finish(ctx, learner, status, root, flags))


@contextlib.contextmanager
def _place(flags: Mapping[str, Any]) -> Iterator[Elsewhere | None]:
    """Where the command runs, if not here."""
    if not flags["is_elsewhere"]:
        yield None
        return
    cwd = Path.cwd()
    made = elsewhere(
        cwd, os.environ, home_files=flags["home_files"], also=flags["also"], keeps=flags["keeps"]
    )
    with made as place:
        for reason in place.left_out:
            output.talk(f"note: not copied: {output.escape(reason)}")
        output.talk(f"elsewhere: {output.escape(str(place.cwd))}, TZ={place.changes['TZ']}")
        yield place


def _run(
    command: Sequence[str], root: Path, flags: Mapping[str, Any], place: Elsewhere | None
) -> tuple[Learner, int]:
    how = record_command_for(root, command, mcp_words(flags))
    there = None if place is None else _surroundings(place, flags["day"])
    named = {"mode": "replay", "upstreams": flags["upstreams"]}
    run = open_run(root, named, default="replay", how_to_record=how, surroundings=there)
    stopper = _Stopper()
    learner = run.learner = Learner(_tell_step, stopper.stop, datetime.now(UTC).date())
    handover = Handover.plan(os.environ, flags["pass_env"])
    proxy = proxy_rules(run, flags)
    with gateway_environment(run, Faults(), handover, pace=Pace(), proxy=proxy) as environment:
        if RUN_VARIABLE not in environment:
            environment[RUN_VARIABLE] = run.name
        environment |= {"CORTEX_REPLAY_MODE": "replay", "CORTEX_REPLAY_STORE": str(root)}
        given: Mapping[str, str] = environment
        if place is not None:
            given = place.environment(environment)
        cwd = None if place is None else place.cwd
        with wrap_servers(run, command, given, flags, cwd=cwd) as wrapped:
            words, given = wrapped.command, wrapped.environment
            if flags["day"] is not None:
                words = ["faketime", f"{flags['day']:%Y-%m-%d} {_NOON}:00:00", *words]
            status = stopper.run(words, given, cwd)
    if status and learner.departure is None:
        handover.tell(given)
    for reason in run.ledger.broken:
        output.talk(f"refused: {output.escape(reason)}")
    return learner, FixtureIntegrityFailed.exit_code if run.ledger.broken else status


def _surroundings(place: Elsewhere, day: datetime | None) -> Surroundings:
    """What is known of another place, on another day if there is one."""
    away = timedelta()
    if day is not None:
        away = day.replace(hour=_NOON, tzinfo=ZoneInfo(place.changes["TZ"])) - datetime.now(UTC)
    return Surroundings.of(place.environment(os.environ), place.cwd, lambda: datetime.now(UTC) + away)


class _Stopper:
    """Runs a command in a group of its own, so that whatever it started ends with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()

    def run(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None) -> int:
        try:
            process = subprocess.Popen(command, env=dict(environment), cwd=cwd, start_new_session=True)
        except OSError as error:
            output.talk(f"error: {output.escape(command[0])} cannot be run: {error.strerror}")
            return 127 if isinstance(error, FileNotFoundError) else 126
        self._process = process
        before = _on_sigterm(_end)
        try:
            with process:
                status = process.wait()
        finally:
            self._is_over.set()
            self._signal(signal.SIGKILL)
            _on_sigterm(before)
        return status if status >= 0 else 128 - status

    def stop(self) -> None:
        """End it: first politely."""
        self._signal(signal.SIGTERM)
        threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        if not self._is_over.wait(_GRACE_S):
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def _end(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _on_sigterm(handler: Any) -> Any:
    try:
        return signal.signal(signal.SIGTERM, handler)
    except ValueError:  # not in the main thread: nobody sends signals here
        return None


def _tell_step(step: Step) -> None:
    rules = f", {output.count(step.rules, 'new rule')}" if step.rules else ""
    output.talk(f"call {step.number}: {output.escape(step.path or 'as recorded')}{rules}")


def _finish(ctx: click.Context, learner: Learner, status: int, root: Path, flags: Mapping[str, Any]) -> int:
    """Write what was learned, and say so; gives the status to exit with."""
    document: dict[str, Any] = {"calls": len(learner.steps), "rules": [], "command_status": status}
    departure = learner.departure
    if departure is not None:
        options.settle(ctx, NoFixture.exit_code)
        _tell_departure(departure)
        if flags["as_json"]:
            output.print_json(document | {"departure": _departure_document(departure)})
        return NoFixture.exit_code
    if not learner.steps:
        output.talk(
            "error: no call came to the gateway; `cortex-replay replay --help` says how it gets there"
        )
        return status or 1
    keeping = plan_keeping(root, learner.rules) if learner.rules else None
    refused = [] if keeping is None else keeping.refused
    status = 1 if refused else status
    options.settle(ctx, status)
    if keeping is not None and not refused:
        if not flags["dry_run"]:
            _write(keeping, root)
        document |= {"rules": [_plain(rule) for rule in learner.rules], "configuration": str(keeping.file)}
        document |= {"moving": len(keeping.plan.moving), "dry_run": flags["dry_run"]}
        if not flags["as_json"]:
            _print_rules(keeping, dry_run=flags["dry_run"])
    if flags["as_json"]:
        output.print_json(document | {"refused": refused})
    for one, other in refused:
        output.talk(f"error: the rules would give {output.escape(one)} and {output.escape(other)} one key")
    if refused:
        output.talk(
            "nothing was written. If they are one call, recorded twice, remove one: cortex-replay prune"
        )
    output.talk(_summary(learner))
    return status


def _write(keeping: RuleKeeping, root: Path) -> None:
    try:
        keeping.write()
    except (StoreIo, FixtureIntegrityFailed):
        output.talk(
            f"error: if the rules are in {output.escape(keeping.shown)} by now, recordings do not have their "
            f"new keys yet: {output.escape(shlex.join(['cortex-replay', 'rekey', '--store', str(root)]))}"
        )
        raise


def _summary(learner: Learner) -> str:
    needed = sum(not step.rules for step in learner.steps)
    none = f"{output.count(needed, 'call')} needed none"
    return f"{output.count(learner.rules, 'rule')} from {output.count(learner.steps, 'call')}; {none}"


def _print_rules(keeping: RuleKeeping, *, dry_run: bool) -> None:
    added, got = ("would be", "would get") if dry_run else ("were", "got")
    moving = output.count(keeping.plan.moving, "recording")
    with output.tolerate_broken_pipe():
        for rule in keeping.rules:
            output.echo("\n".join(map(output.escape, rule_lines(rule, keeping.prefix))) + "\n")
    output.talk(f"these {added} added to {output.escape(keeping.shown)}; {moving} {got} another key")


def _tell_departure(departure: Departure) -> None:
    where = f"call {departure.number} is not what was recorded"
    output.talk(f"error: {where}, and not by noise; the command was stopped, and nothing was written")
    if departure.explanation:
        output.talk(output.quote(departure.explanation))
        return
    output.talk(f"It was held against {output.escape(departure.path)}. What changed:")
    for change in departure.changes[:_MOST_SHOWN]:
        output.talk(output.quote(f"  {change}"))
        if change.rule is not None:
            lines = rule_lines(replace(change.rule, learned=""), "")
            output.talk("    If it says nothing, add this rule, and run `cortex-replay rekey`:")
            output.talk("\n".join(f"      {output.escape(line)}" for line in lines))
    if len(departure.changes) > _MOST_SHOWN:
        output.talk(f"  … and {len(departure.changes) - _MOST_SHOWN} more")


def _departure_document(departure: Departure) -> dict[str, Any]:
    return {
        "call": departure.number,
        "path": departure.path,
        "explanation": departure.explanation,
        "changes": [
            {"part": change.difference.part, "what": str(change.difference), "why": change.why}
            for change in departure.changes
        ],
    }


def _plain(rule: PlaceRule) -> dict[str, str]:
    return {name: text for name in ("bind", "before", "after", "learned") if (text := getattr(rule, name))}
