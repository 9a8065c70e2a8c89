"""What the commands that start a gateway have in common."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cortex_replay.cli import output
from cortex_replay.cli.abandoned import adopt_abandoned
from cortex_replay.config import CallerSettings, Settings, load_settings
from cortex_replay.engine.budget import Meter, MeteredAdapter
from cortex_replay.engine.http import Engine, Upstreams
from cortex_replay.errors import InvalidRequest
from cortex_replay.faults import Fault, Faults
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.providers import upstream_name
from cortex_replay.redact.settings import redactor_for
from cortex_replay.run.adapters import adapter_for
from cortex_replay.store import Store
from cortex_replay.store.git import is_tracked

if TYPE_CHECKING:
    from cortex_replay.gateway.rpc import Rpc

__all__ = [
    "fault_option",
    "faults_in",
    "gateway_options",
    "open_engine",
    "overrides_in",
    "quoted_command",
    "rpc_for",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_DEFAULT_TIMEOUT_MS = 600_000
"""What SDKs give a call by themselves."""


def gateway_options(function: _F) -> _F:
    """The options of everything that starts a gateway."""
    for option in (
        click.option(
            "--upstream",
            "upstreams",
            multiple=True,
            metavar="NAME=URL",
            help="The server of a provider: openai=http://127.0.0.1:8080/v1. Repeatable.",
        ),
        click.option(
            "--pace",
            default="instant",
            show_default=True,
            metavar="PACE",
            help="Of replayed streams: instant, recorded, or a factor on the recorded times.",
        ),
        click.option(
            "--timeout-ms", type=click.IntRange(1), help="What one live call may take.  [default: 600000]"
        ),
        click.option("--budget-calls", type=click.IntRange(0), help="No more live calls than this."),
        click.option("--budget-tokens", type=click.IntRange(0), help="No more tokens than this."),
        click.option("--record-failures", is_flag=True, help="Record errors of providers as answers, too."),
    ):
        function = option(function)
    return function


fault_option = click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Let something go wrong: 429@2, cut:3@always, 500@0.2/7 (docs/faults.md). Repeatable.",
)


def faults_in(spelled: Sequence[str], *, per_scope: bool = True) -> Faults:
    """The faults that were named on the command line."""
    return Faults([Fault.parse(text) for text in spelled], per_scope=per_scope)


def overrides_in(upstreams: Sequence[str]) -> dict[str, str]:
    """The servers that were named on the command line."""
    overrides: dict[str, str] = {}
    for given in upstreams:
        name, equals, url = given.partition("=")
        if not equals or not name or not url:
            raise click.UsageError(f"--upstream takes NAME=URL, not {given!r}")
        overrides[upstream_name(name)] = url
    return overrides


def open_engine(
    root: Path,
    mode: AnyMode | None,
    flags: Mapping[str, Any],
    *,
    default: AnyMode,
    how_to_record: str,
) -> tuple[Engine, Settings]:
    """Load the settings, open the store, and make the engine of a gateway.

    Args:
        root: Of the store; it is made if it is not there and something may be recorded.
        mode: As asked for on the command line.
        flags: The values of :func:`gateway_options`.
        default: The mode of this command where neither the command line nor a configuration names one.
        how_to_record: The command that records what is missing.

    Raises:
        InvalidRequest: A setting cannot be.
        FixtureIntegrityFailed: The store is not what its index says.
    """
    named = {name: flags.get(name) for name in ("budget_calls", "budget_tokens")}
    loaded = load_settings(Path(), os.environ, {**named, "mode": mode, "store": root})
    for warning in loaded.warnings:
        output.talk(f"warning: {output.escape(warning)}")
    overrides = overrides_in(flags.get("upstreams", ()))
    settings = _with_servers(loaded.settings, overrides, flags.get("timeout_ms"))
    is_said = mode is not None or loaded.origins.get("mode") != "default"
    chosen = settings.mode if is_said else Mode.of(default)
    if chosen.writes:
        store = Store.open_or_create(root, verify="on-read")
        adopt_abandoned(store)
    else:
        store = Store.open(root, verify="on-read")
    engine = Engine(
        store,
        chosen,
        Upstreams(loaded.settings, os.environ, overrides),
        environment=dict(os.environ),
        redactor=redactor_for(settings, os.environ),
        how_to_record=how_to_record,
        record_failures=bool(flags.get("record_failures")),
        max_sensitivity=settings.max_sensitivity,
        timeout_ms=flags.get("timeout_ms") or _DEFAULT_TIMEOUT_MS,
        meter=Meter(settings.budget_calls, settings.budget_tokens),
    )
    return engine, settings


def _with_servers(settings: Settings, overrides: Mapping[str, str], timeout_ms: int | None) -> Settings:
    """The settings with the servers of the command line, for those who ask by an adapter."""
    providers = {
        name: provider.at(overrides[upstream_name(name)]) if upstream_name(name) in overrides else provider
        for name, provider in settings.providers.items()
    }
    return replace(settings, providers=providers, timeout_ms=timeout_ms or settings.timeout_ms)


def rpc_for(engine: Engine, settings: Settings) -> Rpc | None:
    """The admin RPC, where the configuration names somebody who may call it."""
    if not settings.callers:
        return None
    from cortex_replay.gateway.rpc import Rpc  # noqa: PLC0415 - few have callers

    for name, caller in settings.callers.items():
        _refuse_tracked_token(name, caller)
    rpc = Rpc(
        settings,
        os.environ,
        engine,
        lambda name: MeteredAdapter(adapter_for(settings, name), engine.meter),
        engine.redactor,
    )
    for name in rpc.callers.without_token:
        output.talk(f"warning: the caller {output.escape(name)} has no token, and cannot call over HTTP")
    return rpc


def _refuse_tracked_token(name: str, caller: CallerSettings) -> None:
    """Whoever has the repository would have the token, and could spend the user's key."""
    root, file = caller.root_of("token_file"), caller.token_file
    if root is not None and file is not None and is_tracked(root, os.path.relpath(file, root)):
        reason = "git tracks it, so it is no secret; take it out of the repository, and make a new one"
        raise InvalidRequest(f"callers.{name}.token_file", reason)


def quoted_command(*words: str | Path) -> str:
    """A command as it can be pasted into a shell."""
    return shlex.join(str(word) for word in words)
