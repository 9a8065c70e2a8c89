"""Whether anybody would answer a command that is to be recorded, before it runs."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cortex_replay.cli import output
from cortex_replay.config.files import read_at_most
from cortex_replay.config.servers import server_of
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.errors import ConfigError
from cortex_replay.modes import Mode
from cortex_replay.providers import PROVIDERS
from cortex_replay.run import Run
from cortex_replay.store.paths import INDEX_NAME

__all__ = ["is_there", "refuse_without_key"]

_OLLAMA: Final = PROVIDERS["ollama"].base_url
_KEYS_OF_CLIENTS: Final = frozenset(row.base_url for row in PROVIDERS.values() if not row.key_variables)
"""Servers that answer with the key of a client, if it has one."""
_CONNECT_S: Final = 0.5
"""It is on this machine: whoever is there answers at once."""
_MOST_BYTES: Final = 2**16
_MOST_NAMED: Final = 3


def refuse_without_key(
    run: Run, root: Path, environment: Mapping[str, str], *, names_servers: bool = False
) -> None:
    """Refuse to go on where whoever is asked would want a key, and there is none.

    A server that somebody named may want none, and so does Ollama, if it runs. With recordings in a store,
    they may be all that is needed, and so may MCP servers; a call that needs more is told which key it
    lacks.

    Args:
        run: The run.
        root: Of the store.
        environment: Where keys are.
        names_servers: Whether the user names MCP servers.

    Raises:
        ConfigError: Nobody can be asked.
    """
    if run.desk().http.names:
        return  # an MCP server may be all that is asked
    upstreams = list(run.engine().upstreams)
    lacking = [upstream.missing_key(environment) for upstream in upstreams]
    if any(not names and _may_answer(one) for one, names in zip(upstreams, lacking, strict=True)):
        return
    variables = list(dict.fromkeys(name for names in lacking for name in names))
    named = _either([*variables[:_MOST_NAMED], "another"])
    if names_servers:
        output.talk(f"warning: no key is set ({named}), so only MCP servers can be asked")
        return
    if (
        run.mode is Mode.ONCE
        and (root / INDEX_NAME).is_file()
        and (run.store.has_fixtures or run.store.list_exchanges())
    ):
        output.talk(f"warning: no key is set ({named}), so only what is recorded is answered")
        return
    problem = "none is set, so nobody would answer; the command was not run."
    raise ConfigError("key", f"{problem}\n{_advice(variables)}")


def _may_answer(upstream: UpstreamServer) -> bool:
    """Whether a server that wants no key of ours is there, as far as can be told at once."""
    if upstream.base_url == _OLLAMA and upstream.provider is not None:
        return is_there(_OLLAMA)
    return upstream.provider is None or upstream.base_url not in _KEYS_OF_CLIENTS


def is_there(url: str) -> bool:
    """Whether somebody listens at a server of this machine."""
    server = server_of(url)
    try:
        socket.create_connection((server.host, server.port) if server else ("", 0), _CONNECT_S).close()
    except OSError:
        return False
    return True


def _advice(variables: list[str]) -> str:
    urls = [row.url_variable for row in PROVIDERS.values() if row.url_variable]
    keys = [*variables[:_MOST_NAMED], "the key of another provider (cortex-replay config names them)"]
    servers = _either([*urls[:_MOST_NAMED], "the like"])
    lines = [f"Set {_either(keys)}; or {servers} to a server that wants none."]
    with suppress(OSError):
        text = read_at_most(Path(".env"), _MOST_BYTES)[1].decode(errors="replace")
        if any(re.search(rf"^\s*(?:export\s+)?{name}\s*=", text, re.MULTILINE) for name in variables):
            lines.append("The file .env has one, and is not read: set -a; . ./.env; set +a")
    lines.append("Does the command bring a key of its own, or ask no model? Then add --no-key.")
    return "\n".join(lines)


def _either(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
