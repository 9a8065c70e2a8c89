"""``replay --from N --live`` and ``replay --scope NAME``: a run that leaves its recording, and that road."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from cortex_replay.cli import output
from cortex_replay.cli.fixtures import end_without_fixture
from cortex_replay.engine.fork_names import ForkPlan, is_of_fork
from cortex_replay.engine.run_names import new_run_name
from cortex_replay.history.calls import read_calls
from cortex_replay.run import Run
from cortex_replay.store import Store

__all__ = ["check_fork_options", "fork_document", "keeps_fork", "prepare_fork", "tell_of_fork"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MOST_SHOWN: Final = 10
_OF_FORKS: Final = {"road": "--as", "budget_calls": "--budget-calls", "budget_tokens": "--budget-tokens"}


def check_fork_options(flags: Mapping[str, Any]) -> None:
    """Refuse options that say nothing together.

    Raises:
        UsageError: They do.
    """
    for option, name in (("--as", flags["road"]), ("--scope", flags["scope"])):
        if name is not None and not _NAME.fullmatch(name):
            raise click.UsageError(f"{option} takes a name of letters, digits, -, _ and ., at most 64")
    if flags["past_calls"] is None:
        given = [option for name, option in _OF_FORKS.items() if flags[name] is not None]
        given += [option for option, name in (("--live", "is_live"), ("--no-key", "no_key")) if flags[name]]
        if given:
            raise click.UsageError(f"{given[0]} goes with --from N, behind which the command goes on live")
        return
    if not flags["is_live"]:
        raise click.UsageError(
            "behind the calls that --from counts, models are asked, and that costs: say --live as well"
        )
    if flags["faults"]:
        raise click.UsageError("--fault does not go with --from: a fault would change which calls are made")
    if "live" in flags["fail_on"]:
        raise click.UsageError("--fail-on live does not go with --from, which makes live calls")


def prepare_fork(ctx: click.Context, flags: Mapping[str, Any]) -> Callable[[Run], None]:
    """What makes a run leave its recording, or go on the road of one that has; it ends a command whose road
    is not there, or is there already."""

    def prepare(run: Run) -> None:
        if flags["scope"] is not None:
            if not _has_fork(run.store, flags["scope"]):
                known = _known_scopes(run.store)
                there = f"; there are {known}" if known else ""
                end_without_fixture(ctx, f"no scope {output.escape(flags['scope'])} is recorded{there}")
            run.fork_name = flags["scope"]
        if flags["past_calls"] is None:
            return
        name = flags["road"] or f"fork-{flags['past_calls']}-{new_run_name()}"
        if flags["road"] is not None and _has_fork(run.store, name):
            raise click.UsageError(
                f"{output.escape(name)} is recorded already, and stays as it is: take another name"
            )
        if run.is_fleet:
            raise click.UsageError("a fork is of one machine; unset CORTEX_REPLAY_RUN")
        run.fork_plan = ForkPlan(flags["past_calls"], name)

    return prepare


def _has_fork(store: Store, name: str) -> bool:
    if any(is_of_fork(name, scope) for scope in store.scopes):
        return True
    # Who records first what nobody else has asked shares it, and has no row of its own for it.
    return any(is_of_fork(name, scope) for call in read_calls(store).calls for scope in call.scopes)


def _known_scopes(store: Store) -> str:
    # A fork of tests has a scope for each. That of a test itself is no road, and there may be thousands.
    names = sorted(
        {
            scope.partition("/")[0] if scope.startswith("fork-") else scope
            for scope in store.scopes
            if scope.startswith("fork-") or "::" not in scope
        }
    )
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(output.escape(output.redact(name)) for name in names[:_MOST_SHOWN]) + more


def keeps_fork(run: Run) -> bool:
    """Whether what a run staged is worth a commit: a fork that asked nobody has only what was there."""
    return run.fork_plan is None or run.ledger.live > 0


def fork_document(run: Run) -> dict[str, Any]:
    """What came of a fork, for programs; nothing of a run that has none."""
    plan = run.fork_plan
    if plan is None:
        return {}
    has_left = any(fork.has_left for fork in run.forks)
    is_kept = keeps_fork(run)
    return {"fork": {"name": plan.name, "from": plan.calls, "left": has_left, "kept": is_kept}}


def tell_of_fork(run: Run, root: Path, command: Sequence[str], ways: Sequence[str]) -> int:
    """Say what became of a fork; gives 1 for one that the command never came to.

    Args:
        run: That of the fork.
        root: Of the store.
        command: What was run.
        ways: The options that a replay of it needs, too: a proxy, servers in a file.
    """
    plan = run.fork_plan
    if plan is None:
        return 0
    if keeps_fork(run):
        options = ["--store", str(root), "--scope", plan.name, *ways]
        again = ["cortex-replay", "replay", *options, "--", *command]
        output.talk(f"recorded as {output.escape(plan.name)}; to replay it:")
        output.talk(f"  {output.escape(shlex.join(again))}")
        return 0
    if run.ledger.missing_answers:
        output.talk("nobody was asked, and nothing was recorded: a call before the fork is not recorded")
        return 0  # the miss says more
    if any(fork.has_left for fork in run.forks):
        output.talk("nothing was recorded: no live call was made")
        return 0
    most = max((fork.calls for fork in run.forks), default=0)
    output.talk(f"error: the command made {output.count(most, 'call')}, so it never left its recording")
    return 1
