"""Running a command behind a gateway: for ``record -- COMMAND`` and ``replay -- COMMAND``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex_replay.cli import output
from cortex_replay.cli.forking import fork_document, keeps_fork, tell_of_fork
from cortex_replay.cli.mcp_wrapping import mcp_words, wrap_servers
from cortex_replay.cli.options import DRIFT
from cortex_replay.cli.runs import (
    open_run,
    record_command_for,
    rpc_for,
    tell_published,
    tell_repeats,
    warn_of_dropped,
)
from cortex_replay.config import load_settings
from cortex_replay.disk import absolute_path, scratch_folder, write_file
from cortex_replay.engine.fork_names import FORK_VARIABLE
from cortex_replay.engine.http.model_hosts import ModelHosts
from cortex_replay.engine.ledger import Ledger, Miss
from cortex_replay.engine.mcp.counts import server_facts, server_rows
from cortex_replay.engine.run_names import RUN_VARIABLE
from cortex_replay.errors import FixtureIntegrityFailed, NoFixture
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Gateway, Pace
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.run import Run
from cortex_replay.run.certificates import trust_variables
from cortex_replay.run.environment import command_environment, variables_to_withhold
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.socket import RunSocket
from cortex_replay.run.step_summary import write_step_summary
from cortex_replay.shim import VARIABLE as MCP_VARIABLE
from cortex_replay.store import Store

__all__ = [
    "CommandRun",
    "Handover",
    "gateway_environment",
    "proxy_rules",
    "report",
    "run_command",
    "run_once",
    "summarise",
]

_MOST_SHOWN = 10


@dataclass(frozen=True)
class Handover:
    """What of our environment a command gets: all but secrets, and those that the user named."""

    passed: tuple[str, ...]
    withheld: tuple[str, ...]

    @classmethod
    def plan(cls, environment: Mapping[str, str], passed: Sequence[str]) -> Handover:
        for name in passed:
            if name not in environment:
                output.talk(f"warning: --pass-env {output.escape(name)}: there is no such variable")
        return cls(tuple(passed), tuple(variables_to_withhold(environment, passed)))

    def tell(self, given: Collection[str]) -> None:
        """Say what a command that failed may have lacked; not of keys that it got a dummy for."""
        names = [output.escape(name) for name in self.withheld if name not in given]
        if not names:
            return
        shown = ", ".join(names[:_MOST_SHOWN])
        more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        held = "variable that holds a secret was" if len(names) == 1 else "variables that hold secrets were"
        output.talk(
            f"note: {len(names)} {held} withheld from the command: {shown}{more} "
            "(--pass-env NAME hands one over)"
        )


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
        return self.status or _verdict(self.run.ledger, self.run.store, fail_on)


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
    of_fork = tell_of_fork(done.run, root, command)
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
        how_to_record=record_command_for(root, command, [*_proxy_options(flags), *mcp_words(flags)]),
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
    _tell_of_proxy(proxy)
    _tell(run)
    tell_published(run)
    return CommandRun(run, status, proxy)


def report(document: dict[str, Any], flags: Mapping[str, Any]) -> bool:
    """Write and print what happened, where that is asked for; whether it could be written."""
    is_written = flags["report"] is None or _write_report(flags["report"], document)
    if flags["as_json"]:
        output.print_json(document, indent=None)
    return is_written


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


def _proxy_options(flags: Mapping[str, Any]) -> list[str]:
    named = [word for host in flags["model_hosts"] for word in ("--model-host", host)]
    return ["--proxy", *named] if flags["proxy"] else []


def _tell_of_proxy(proxy: ProxyRules | None) -> None:
    """Who did not trust the proxy, and what went past it while something was recorded."""
    if proxy is None or proxy.models is None:
        return
    for host, count in proxy.distrusted.most_common(_MOST_SHOWN):
        output.talk(
            f"warning: {count} x the command did not accept our certificate for {output.escape(host)}: "
            "it takes its roots from elsewhere (docs/gateway.md, Clients without a base URL)"
        )
    if proxy.tunnelled:
        shown = ", ".join(output.escape(host) for host, _ in proxy.tunnelled.most_common(_MOST_SHOWN))
        more = len(proxy.tunnelled) - _MOST_SHOWN
        shown += f" and {more} more" if more > 0 else ""
        output.talk(f"note: not recorded, as no hosts of models: {shown} (--model-host NAME records one)")


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


def _write_report(report: Path, document: dict[str, Any]) -> bool:
    try:
        write_file(report, (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        output.talk(f"error: the report cannot be written: {output.escape(str(error))}")
        return False
    return True


def _verdict(ledger: Ledger, store: Store, fail_on: Sequence[str]) -> int:
    """The status of a run whose command was content."""
    if ledger.broken:
        output.talk("error: the store is not what its index says")
        return FixtureIntegrityFailed.exit_code
    if ledger.calls == 0:
        output.talk(
            "error: no call came to the gateway. Does the command call a model? Does its SDK read one of "
            "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST? CORTEX_REPLAY_GATEWAY holds its URL, "
            "and --proxy reaches clients that read none of these. An MCP server comes to it where its "
            "configuration names `cortex-replay mcp NAME -- SERVER`."
        )
        return 1
    if "miss" in fail_on and (missing := ledger.missing_answers):
        output.talk(f"error: something was asked that is not recorded: {_names_of(missing)}")
        output.talk("The command got an error for it and ended well all the same; --allow-miss accepts that.")
        return NoFixture.exit_code
    if "live" in fail_on and (ledger.live or ledger.bypassed):
        output.talk("error: live calls were made")
        return DRIFT
    if "unused" in fail_on and (ledger.unused(store) or ledger.unused_calls(store)):
        if not ledger.servers:  # else they are named already
            _name_unused_calls(ledger, store)
        output.talk("error: some recordings are not used any more")
        return DRIFT
    return 1 if ledger.refused else 0


def _names_of(misses: Sequence[Miss]) -> str:
    """What was missed, each once."""
    counted = Counter(miss.what for miss in misses)
    names = [output.escape(what) + (f" ({n} times)" if n > 1 else "") for what, n in counted.items()]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


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


def _tell(run: Run) -> None:
    """The ledger, for a person."""
    ledger = run.ledger
    explained = _explanations(ledger)
    for explanation in explained[:_MOST_SHOWN]:
        output.talk(output.quote(explanation))
    if len(explained) > _MOST_SHOWN:
        output.talk(f"… and {len(explained) - _MOST_SHOWN} more questions that are not recorded")
    for reason in ledger.broken[:_MOST_SHOWN]:
        output.talk(f"refused: {output.escape(reason)}")
    for reason in [*ledger.refused, *ledger.failures][:_MOST_SHOWN]:
        output.talk(f"not recorded: {output.escape(reason)}")
    for reason in ledger.recorded_failures[:_MOST_SHOWN]:
        output.talk(f"recorded as a failure: {output.escape(reason)}")
    for host, count in ledger.bypassed.most_common(_MOST_SHOWN):
        output.talk(f"warning: refused {count} x {output.escape(host)}, a call around the gateway")
    tell_repeats(ledger)
    _tell_of_servers(ledger, run.store)
    output.talk("cortex-replay: " + ", ".join(_facts(ledger, run.store)))


def _tell_of_servers(ledger: Ledger, store: Store) -> None:
    """What MCP servers were asked, of the counts below; nothing of a run that asked none."""
    for text, count in ledger.remarks.most_common(_MOST_SHOWN):
        output.talk(f"note: {output.escape(text)}" + (f" ({count} times)" if count > 1 else ""))
    if ledger.servers:
        _name_unused_calls(ledger, store)
    for fact in server_facts(ledger.servers):
        output.talk(f"cortex-replay: MCP server {output.escape(fact)}")


def _name_unused_calls(ledger: Ledger, store: Store) -> None:
    unused = ledger.unused_calls(store)
    for call in unused[:_MOST_SHOWN]:
        output.talk(f"unused: {output.escape(call.path)}, {output.escape(f'{call.server} {call.what}')}")
    if len(unused) > _MOST_SHOWN:
        output.talk(f"… and {len(unused) - _MOST_SHOWN} more calls to MCP servers that are not used")


def _explanations(ledger: Ledger) -> list[str]:
    """Why there were misses, each reason once, and how often."""
    counted = Counter(miss.explanation for miss in ledger.misses)
    return [text if n == 1 else f"{text}\nIt was asked {n} times." for text, n in counted.items()]


def _facts(ledger: Ledger, store: Store) -> Iterator[str]:
    yield output.count(ledger.hits, "hit")
    yield f"{len(ledger.misses)} miss" + ("" if len(ledger.misses) == 1 else "es")
    yield f"{ledger.recorded} recorded"
    yield f"{ledger.live} live" + (f" ({ledger.failed} failed)" if ledger.failed else "")
    if ledger.declined:
        yield f"{ledger.declined} refused by policy"
    yield from ledger.token_facts()
    yield from map(output.escape, ledger.money_facts())
    unused = len(ledger.unused(store))
    yield f"{unused} of {len(store)} fixtures unused"


def summarise(run: Run, status: int) -> None:
    """Write a table in the summary of a GitHub job."""
    ledger = run.ledger
    rows = {
        "mode": run.mode,
        "hits": ledger.hits,
        "misses": len(ledger.misses),
        "recorded": ledger.recorded,
        "live calls": ledger.live,
        "unused fixtures": len(ledger.unused(run.store)),
        **server_rows(ledger.servers),
        **({"unused calls to MCP servers": len(ledger.unused_calls(run.store))} if ledger.servers else {}),
        **ledger.cost_rows(),
        "command's status": status,
    }
    write_step_summary(os.environ, "cortex-replay", rows, [*_explanations(ledger), *ledger.remarks])
