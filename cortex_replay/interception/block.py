"""``intercept``: for unittest, notebooks, and whoever has no plugin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cortex_replay.config import load_settings
from cortex_replay.errors import StoreIo
from cortex_replay.interception.guard import LiveCallRefused, guarding
from cortex_replay.interception.interception import Http, Interception
from cortex_replay.interception.mcp.servers import McpChoice, McpServers
from cortex_replay.interception.transports import install
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.run import Run
from cortex_replay.store import Store

__all__ = ["intercept", "refusal_of"]


def refusal_of(host: str, *, is_provider: bool) -> str:
    """What is said to whoever goes around us.

    Args:
        host: Who was to be asked.
        is_provider: Whether it is a configured provider, and so never an application under test.
    """
    message = (
        f"cortex-replay: a live call to {host} was refused. It looks like a call to a model, and its client "
        "sends it in a way that can be neither recorded nor replayed here: not with httpx, requests, "
        "urllib3, botocore, aiohttp or http.client. Point the client at a gateway (docs/pytest.md)"
    )
    if is_provider:
        return f"{message}."
    return f"{message}; or, if {host} is the application under test, say allow_hosts=[{host!r}]."


@contextlib.contextmanager
def intercept(
    store: str | os.PathLike[str] | Store,
    mode: AnyMode | None = None,
    *,
    scope: str = "",
    guard: bool = True,
    allow_hosts: Iterable[str] = (),
    keep_failed: bool = False,
    http: Http = "models",
    mcp: McpChoice = True,
) -> Iterator[Interception]:
    """Answer the model calls of this process from a store, or record them there.

    Args:
        store: An open store, or the root of one, which is made if something is recorded and it is not there.
        mode: ``replay``, ``once``, ``record`` or ``live``; by default what the configuration says.
        scope: Whose answers are counted together.
        guard: Whether a client that is not intercepted may not ask a model.
        allow_hosts: Hosts that are left alone though calls to them look like calls to a model.
        keep_failed: Whether what was recorded is kept if the block raises.
        http: Which calls are recorded and replayed: those to ``models``, or ``all``.
        mcp: Whether MCP sessions are recorded and replayed; or names for servers, by patterns of their
            commands or URLs, and ``False`` for those that are left alone.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says.
        InvalidRequest: There is no such mode, or no such choice of calls.
    """
    settings = load_settings(Path(), os.environ, {} if mode is None else {"mode": mode}).settings
    run = Run.open(settings, store=store, how_to_record="use the mode once")
    own = run.open_scope(scope, is_branch=True)
    servers = McpServers(run, own, mcp)
    interception = Interception(run.engine(), own, allow_hosts=allow_hosts, http=http, mcp=servers)

    def refuse(host: str) -> LiveCallRefused:
        run.ledger.bypass(host)
        return LiveCallRefused(refusal_of(host, is_provider=host in interception.hosts))

    try:
        with contextlib.ExitStack() as stack:
            if guard and run.mode is not Mode.LIVE:
                stack.enter_context(guarding(interception.hosts, refuse, interception.is_allowed))
            stack.enter_context(install(interception))
            yield interception
    except BaseException:
        if run.mode.writes:
            if keep_failed:
                own.store.commit()
            else:
                own.store.discard()
            with contextlib.suppress(StoreIo):  # what was raised says more
                run.publish()
        raise
    if run.mode.writes:
        own.store.commit()
        run.publish()
