"""The MCP servers that a command would start, wrapped for one run of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from cortex_replay.cli import output
from cortex_replay.disk import guarded_scratch
from cortex_replay.engine.http.relay import GATEWAY_VARIABLE
from cortex_replay.errors import ConfigError
from cortex_replay.mcp.configurations import Server, Target
from cortex_replay.redact.process import learn_secret
from cortex_replay.run import Run
from cortex_replay.run.mcp.stdio.shim import shim_command
from cortex_replay.run.mcp.wrapping import Wrapping, wrap

__all__ = ["mcp_words", "wrap_servers"]

_LONGEST_SHOWN: Final = 100


def mcp_words(flags: Mapping[str, Any]) -> list[str]:
    """The options that say the same again, in a command to be pasted into a shell."""
    named = ["--mcp-config", str(flags["mcp_config"])] if flags.get("mcp_config") else []
    return [*named, *(["--no-mcp"] if flags.get("no_mcp") else [])]


@contextmanager
def wrap_servers(
    run: Run,
    command: Sequence[str],
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    withheld: Collection[str] = (),
    cwd: Path | None = None,
    is_silent: bool = False,
) -> Iterator[Wrapping]:
    """A command whose MCP servers lead to a run, for as long as this lasts.

    Args:
        run: The run.
        command: As the user gave it.
        environment: The command's own.
        flags: The values of the options.
        withheld: The variables that it does not have.
        cwd: Where it runs, if not here.
        is_silent: Whether nothing is said of it.
    """
    if flags.get("no_mcp"):
        yield Wrapping([*command], dict(environment))
        return

    def target_of(server: Server) -> Target | None:
        filled = server.expand(environment)
        for secret in filled.secrets():
            run.redactor.learn(secret)
            learn_secret(secret)
        if server.kind != "stdio":
            return _gateway_target(run, filled, environment[GATEWAY_VARIABLE])
        return Target(tuple(shim_command(server.label, server.command)))

    with guarded_scratch() as folder:
        place = (cwd or Path.cwd()).resolve()
        made = wrap(command, environment, place, folder.resolve(), target_of, flags.get("mcp_config"))
        if not is_silent:
            _tell(made, withheld if run.mode.asks else ())
        yield made


def _gateway_target(run: Run, server: Server, gateway: str) -> Target | None:
    """The gateway's address for a server that is reached; its headers stay here."""
    transport: Literal["http", "sse"] = "sse" if server.kind == "sse" else "http"
    # Clients trim what they send: a token that is not there leaves `Bearer ` behind.
    headers = {name: value.strip() for name, value in server.headers.items()}
    try:
        run.desk().add_server(server.label, server.url, headers, transport)
    except ConfigError:
        return None
    behind = "/sse" if transport == "sse" else ""
    return Target(url=f"{gateway.rstrip('/')}/mcp/{server.label}{behind}")


def _tell(made: Wrapping, withheld: Collection[str]) -> None:
    parts = []
    if made.servers:
        names = ", ".join(_shown(server.name) for server in made.servers)
        parts.append(f"{output.count(made.servers, 'MCP server')} wrapped: {names}")
    if made.left:
        reasons: dict[str, list[str]] = {}
        for name, why in made.left.items():
            reasons.setdefault(why, []).append(name)
        told = (f"{', '.join(map(_shown, names))} ({output.escape(why)})" for why, names in reasons.items())
        parts.append(f"not wrapped: {'; '.join(told)}")
    if not parts:
        return
    where = f" ({', '.join(map(output.escape, made.files))})" if made.files else ""
    output.talk(f"cortex-replay{where}: {'; '.join(parts)}")
    for name in made.wanted(sorted(withheld)):
        shown = output.escape(name)
        output.talk(f"note: MCP servers want {shown}, which is withheld (--pass-env {shown} hands it over)")


def _shown(name: str) -> str:
    """A name on the terminal, where a stranger may have chosen it."""
    return output.escape(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")
