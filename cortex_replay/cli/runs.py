"""The runs of commands: of those that record by themselves, and of those that start a gateway."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cortex_replay.bindings import Surroundings
from cortex_replay.cli import output
from cortex_replay.config import CallerSettings, Configuration, load_settings
from cortex_replay.engine.ledger import Ledger
from cortex_replay.errors import Finding, FixtureIntegrityFailed, InvalidRequest
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.providers import upstream_name
from cortex_replay.run import Run
from cortex_replay.store import Store
from cortex_replay.store.git.repository import is_tracked
from cortex_replay.store.paths import INDEX_NAME

if TYPE_CHECKING:
    from cortex_replay.gateway.rpc import Rpc
    from cortex_replay.store.writer import CommitSummary

__all__ = [
    "open_recording",
    "open_run",
    "overrides_in",
    "record_command_for",
    "rpc_for",
    "tell_published",
    "tell_repeats",
    "warn_of_dropped",
]


def warn_of_dropped(summary: CommitSummary) -> None:
    """Say that somebody else was faster."""
    if summary.dropped:
        answers = output.count(summary.dropped, "answer")
        output.talk(
            f"{answers} dropped: another one is recorded under the same key (--mode record overwrites)"
        )


def tell_published(run: Run) -> None:
    """Say what the other workers of a fleet can have, once they can.

    Raises:
        StoreIo: They were not told of all of it.
    """
    published = run.publish()
    if published is not None:
        answers = output.count(published, "answer")
        output.talk(
            f"cortex-replay: {answers} published for the run; `cortex-replay collect` adds them to the store"
        )


def tell_repeats(ledger: Ledger) -> None:
    """Say that some live calls were saved, and how to have them."""
    if ledger.repeated:
        came = f"{output.count(ledger.repeated, 'question')} came again and got the first answer"
        output.talk(f"{came} of this run; --every-answer records each, a scope keeps tests apart")


def open_recording(
    root: Path,
    flags: Mapping[str, object],
    *,
    record_failures: bool,
    makes_store: bool,
    servers: Mapping[str, str] | None = None,
    is_check: bool = False,
) -> Run:
    """Load the settings, open the run, and take over what a run that died left behind.

    Args:
        root: Of the store.
        flags: The values of the options.
        record_failures: Whether errors of providers are answers to be recorded.
        makes_store: Whether the store is made if it is not there.
        servers: Of some providers. Where they are given, those in the environment of SDKs hold as well.
        is_check: Whether nothing is written, so that CI is no wrong place for it.

    Raises:
        InvalidRequest: A setting cannot be.
        FixtureIntegrityFailed: The store is not what its index says. Recording would hide it.
    """
    mode = flags.get("mode")
    settings = _load({**flags, "mode": None, "store": root}).settings
    chosen = Mode(str(mode)) if mode else settings.mode if settings.mode.writes else Mode.ONCE
    if os.environ.get("CI") and not is_check:
        output.talk(f"warning: recording (mode {chosen}) in CI, where only replay is expected")
    if servers is not None:
        from cortex_replay.run.targets import with_sdk_servers  # noqa: PLC0415 - for those alone

        settings = with_sdk_servers(settings, os.environ)
    opened = Store.open_or_create if makes_store else Store.open
    store = opened(root, verify="on-read")
    run = Run(settings, chosen, store, servers=servers, record_failures=record_failures)
    if makes_store:
        from cortex_replay.cli.abandoned import adopt_abandoned  # noqa: PLC0415 - for writers

        if adopt_abandoned(run.store):
            warn_of_dropped(run.commit())
    return run


def overrides_in(upstreams: Sequence[str]) -> dict[str, str]:
    """The servers that were named on the command line."""
    overrides: dict[str, str] = {}
    for given in upstreams:
        name, equals, url = given.partition("=")
        if not equals or not name or not url:
            raise click.UsageError(f"--upstream takes NAME=URL, not {given!r}")
        overrides[upstream_name(name)] = url
    return overrides


def open_run(
    root: Path,
    flags: Mapping[str, Any],
    *,
    default: AnyMode,
    how_to_record: str,
    needs_key: bool = False,
    surroundings: Surroundings | None = None,
) -> Run:
    """Load the settings and open the run of a gateway, with what a run that died left behind.

    Args:
        root: Of the store; it is made if it is not there and something may be recorded.
        flags: The values of the options.
        default: The mode of this command where neither the command line nor a configuration names one.
        how_to_record: The command that records what is missing.
        needs_key: Whether to stop where somebody is to be asked and nobody would answer without a key.
        surroundings: Those of a command that runs elsewhere.

    Raises:
        InvalidRequest: A setting cannot be, or no key is set.
        FixtureIntegrityFailed: The store is not what its index says.
    """
    named = {name: flags.get(name) for name in ("mode", "budget_calls", "budget_tokens", "every_answer")}
    loaded = _load({**named, "store": root})
    is_said = named["mode"] is not None or loaded.origins.get("mode") != "default"
    run = Run(
        loaded.settings,
        loaded.settings.mode if is_said else default,
        root,
        servers=overrides_in(flags.get("upstreams", ())),
        timeout_ms=flags.get("timeout_ms"),
        record_failures=bool(flags.get("record_failures")),
        how_to_record=how_to_record,
        surroundings=surroundings,
    )
    if needs_key and run.mode.asks:
        from cortex_replay.cli.missing_keys import refuse_without_key  # noqa: PLC0415 - replay needs none

        refuse_without_key(run, root, os.environ, names_servers=bool(flags.get("mcp_config")))
    if not run.mode.writes and not os.path.lexists(root / INDEX_NAME) and not root.is_file():
        hint = f"record it once: {how_to_record}"
        finding = Finding("index-unreadable", INDEX_NAME, "is not there: nothing is recorded yet", hint)
        raise FixtureIntegrityFailed([finding])
    _ = run.store  # opened now, or made: whoever may not go on has made nothing
    if run.mode.writes:
        from cortex_replay.cli.abandoned import adopt_abandoned  # noqa: PLC0415 - for writers

        adopt_abandoned(run.store)
    return run


def _load(flags: Mapping[str, object]) -> Configuration:
    """The settings that hold here, with what is to be said about them said."""
    loaded = load_settings(Path(), os.environ, flags)
    for warning in loaded.warnings:
        output.talk(f"warning: {output.escape(warning)}")
    return loaded


def rpc_for(run: Run) -> Rpc | None:
    """The admin RPC, where the configuration names somebody who may call it."""
    if not run.settings.callers:
        return None
    from cortex_replay.gateway.rpc import Rpc  # noqa: PLC0415 - few have callers

    for name, caller in run.settings.callers.items():
        _refuse_tracked_token(name, caller)
    rpc = Rpc(run, os.environ)
    for name in rpc.callers.without_token:
        output.talk(f"warning: the caller {output.escape(name)} has no token, and cannot call over HTTP")
    return rpc


def _refuse_tracked_token(name: str, caller: CallerSettings) -> None:
    """Whoever has the repository would have the token, and could spend the user's key."""
    root, file = caller.root_of("token_file"), caller.token_file
    if root is not None and file is not None and is_tracked(root, os.path.relpath(file, root)):
        reason = "git tracks it, so it is no secret; take it out of the repository, and make a new one"
        raise InvalidRequest(f"callers.{name}.token_file", reason)


def record_command_for(root: Path, command: Sequence[str], options: Sequence[str] = ()) -> str:
    """What records a command, as it can be pasted into a shell."""
    return shlex.join(["cortex-replay", "record", "--store", str(root), *options, "--", *command])
