"""Running a command behind a gateway: for ``record -- COMMAND`` and ``replay -- COMMAND``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex_replay.cli import output
from cortex_replay.cli.command_report import report, summarise, tell_of_proxy, tell_run, verdict
from cortex_replay.cli.forking import fork_document, keeps_fork, tell_of_fork
from cortex_replay.cli.handover import Handover
from cortex_replay.cli.mcp_wrapping import mcp_words, wrap_servers
from cortex_replay.cli.runs import (
    open_run,
    record_command_for,
    rpc_for,
    tell_published,
    warn_of_dropped,
)
from cortex_replay.config import load_settings
from cortex_replay.disk import absolute_path, scratch_folder
from cortex_replay.engine.fork_names import FORK_VARIABLE
from cortex_replay.engine.http.model_hosts import ModelHosts
from cortex_replay.engine.run_names import RUN_VARIABLE
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Gateway, Pace
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.run import Run
from cortex_replay.run.certificates import trust_variables
from cortex_replay.run.environment import command_environment
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.socket import RunSocket
from cortex_replay.shim import VARIABLE as MCP_VARIABLE

__all__ = ["CommandRun", "gateway_environment", "proxy_rules", "run_command", "run_once"]


@dataclass(frozen=True)
class CommandRun:
    """A command that has run, and what its SDKs did."""

    run: Run
    status: int
    """The command's own."""
    proxy: ProxyRules | None

    def document(self) -> dict[str, Any]:
        """What happened, for programs."""
        document = self.run.ledger.to_dict(self.run.store)
        document |= {"mode": self.run.mode, "command_status": self.status, **fork_document(self.run)}
        if self.proxy is not None and self.proxy.models is not None:
            document |= {"tunnelled": dict(self.proxy.tunnelled), "distrusted": dict(self.proxy.distrusted)}
        return document

    def verdict(self, fail_on: Sequence[str]) -> int:
        """The status to exit with: the command's own if it failed, else what its calls say."""
        return self.status or verdict(self.run.ledger, self.run.store, fail_on)


def run_command(
    command: Sequence[str],
    root: Path,
    flags: Mapping[str, Any],
    *,
    default: AnyMode,
    prepare: Callable[[Run], None] = lambda _: None,
) -> int:
    """Run a command whose SDKs come to a gateway, and report it; gives the status to exit with.

    Args:
        command: What stands behind ``--``.
        root: Of the store.
        flags: The values of the options.
        default: The mode where neither the command line nor a configuration names one.
        prepare: Gets the run before the command is started.
    """
    done = run_once(command, root, flags, default=default, prepare=prepare)
    is_reported = report(done.document(), flags)
    summarise(done.run, done.status)
    of_fork = tell_of_fork(done.run, root, command, _ways(flags))
    return done.verdict(flags["fail_on"]) or of_fork or (0 if is_reported else 1)


def run_once(
    command: Sequence[str],
    root: Path,
    flags: Mapping[str, Any],
    *,
    default: AnyMode,
    prepare: Callable[[Run], None] = lambda _: None,
) -> CommandRun:
    """Run a command whose SDKs come to a gateway, commit what was recorded, and tell a person of it.

    Args:
        command: What stands behind ``--``.
        root: Of the store.
        flags: The values of the options.
        default: The mode where neither the command line nor a configuration names one.
        prepare: Gets the run before the command is started.
    """
    pace = Pace.parse(str(flags.get("pace") or "instant"))
    run = open_run(
        root,
        flags,
        default=default,
        how_to_record=record_command_for(root, command, _ways(flags)),
        # What needs no base URL often has a key of its own, too.
        needs_key=not flags.get("no_key") and not flags["proxy"],
    )
    prepare(run)
    faults = Faults(map(Fault.parse, flags.get("faults", ())))
    proxy = proxy_rules(run, flags)
    handover = Handover.plan(os.environ, flags["pass_env"])
    with gateway_environment(run, faults, handover, pace=pace, proxy=proxy) as environment:
        if RUN_VARIABLE not in environment or run.is_fleet:  # that one's name is a secret
            environment[RUN_VARIABLE] = run.name
        environment.update(_settings_of(run, root))
        with wrap_servers(run, command, environment, flags, withheld=handover.withheld) as wrapped:
            status = _run(wrapped.command, wrapped.environment)
    if status:
        handover.tell(environment)
    if run.mode.writes and keeps_fork(run):
        warn_of_dropped(run.store.commit())
    elif run.mode.writes:
        run.store.discard()
    tell_of_proxy(proxy)
    tell_run(run)
    tell_published(run)
    return CommandRun(run, status, proxy)


@contextlib.contextmanager
def gateway_environment(
    run: Run, faults: Faults, handover: Handover, *, pace: Pace, proxy: ProxyRules | None
) -> Iterator[dict[str, str]]:
    """The environment of a command whose SDKs come to a gateway, which is there for as long as this lasts."""
    with contextlib.ExitStack() as stack:
        server = Gateway(run, pace=pace, faults=faults, rpc=rpc_for(run), proxy=proxy)
        gateway = stack.enter_context(server.running())
        environment = command_environment(
            os.environ,
            run.settings,
            gateway.url,
            gateway.proxy_url(),
            withheld=handover.withheld,
            passed=handover.passed,
        )
        served = stack.enter_context(RunSocket.open(Desk(run)))
        if served is not None:
            environment[MCP_VARIABLE] = served.path
        if gateway.certificate is not None:
            folder = stack.enter_context(scratch_folder())
            environment |= trust_variables(os.environ, gateway.certificate, folder)
        yield environment


def proxy_rules(run: Run, flags: Mapping[str, Any]) -> ProxyRules | None:
    """What stands before everything that is not pointed at the gateway, if anything does."""
    is_open = run.mode.asks or bool(flags.get("no_guard"))
    models = ModelHosts(run.engine().upstreams, flags["model_hosts"]) if flags["proxy"] else None
    if is_open and models is None:
        return None
    return ProxyRules(models, is_open, flags.get("allow_hosts", ()), run.ledger.bypass)


def _ways(flags: Mapping[str, Any]) -> list[str]:
    """The options that say how a command reaches us, for another run of it."""
    named = [word for host in flags["model_hosts"] for word in ("--model-host", host)]
    return [*(["--proxy", *named] if flags["proxy"] else []), *mcp_words(flags)]


def _settings_of(run: Run, root: Path) -> dict[str, str]:
    """What a command has to know of this run that replays by itself, too: pytest with our plugin."""
    # In a fork, whoever asks by itself must not ask again what is recorded.
    made = {"CORTEX_REPLAY_MODE": str(run.mode if run.fork_plan is None else Mode.ONCE)}
    if run.fork_name and run.fork_plan is None:
        made[FORK_VARIABLE] = run.fork_name
    store = absolute_path(root)
    if store != absolute_path(load_settings(Path(), os.environ).settings.store):  # it was named for this run
        made["CORTEX_REPLAY_STORE"] = str(store)
    return made


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(list(command), env=dict(environment))
    except OSError as error:
        output.talk(f"error: {output.escape(command[0])} cannot be run: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    with _passing_on_signals(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _passing_on_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A terminal sends Ctrl-C to the command itself; whoever asks us to end means the command."""

    def pass_on(number: int, _: object) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: nobody sends signals here
        before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
