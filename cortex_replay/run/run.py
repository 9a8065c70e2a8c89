"""One run, and what it hands out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cortex_replay.bindings import Surroundings
from cortex_replay.config import Settings, load_settings
from cortex_replay.engine.core import RunCore, owner_name
from cortex_replay.engine.fork_names import FORK_VARIABLE
from cortex_replay.engine.mcp.rules import CallRules
from cortex_replay.engine.money import PriceList
from cortex_replay.engine.scope import Scope
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.providers import PROVIDERS, upstream_name
from cortex_replay.redact.settings import redactor_for
from cortex_replay.store import Store

if TYPE_CHECKING:
    from cortex_replay.adapters.base import LlmAdapter
    from cortex_replay.engine.http.engine import Engine
    from cortex_replay.run.mcp.desk import Desk

__all__ = ["Run"]

_HOW_TO_RECORD: Final = "open the run in the mode once, or use `cortex-replay record`"
_URL_VARIABLES: Final = tuple(row.url_variable for row in PROVIDERS.values())
_HTTP_TIMEOUT_MS: Final = 600_000
"""What SDKs give a call by themselves."""


class Run(RunCore):
    """Everything that answers in one run, with one mode, store, redactor, budget, ledger and set of claims.

    Args:
        settings: What is configured.
        mode: What to do with a call; by default what the settings say.
        store: What is recorded, and where to record: an open store, or the root of one, which is made if
            something is recorded and it is not there. By default what the settings say.
        environment: Where keys and servers are; ``os.environ``, as it is when they are needed.
        servers: The servers of some providers, named by whoever started the run.
        timeout_ms: What one call may take, if not what the settings or an SDK say.
        record_failures: Whether errors of providers are answers to be recorded.
        how_to_record: The command that would record what is missing, for messages.
        origin: What recordings of calls over HTTP say that they come from.
        surroundings: What is known of where the calls come from; by default what is known of this process
            and of its environment.
        name: What its recordings say that they are of; by default a new name, or that of the run that this
            process is a part of.
    """

    def __init__(
        self,
        settings: Settings,
        mode: AnyMode | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        servers: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
        record_failures: bool = False,
        how_to_record: str = _HOW_TO_RECORD,
        origin: str = "gateway",
        surroundings: Surroundings | None = None,
        name: str | None = None,
    ) -> None:
        chosen = settings.mode if mode is None else Mode.of(mode)
        self._environment = os.environ if environment is None else environment
        self._servers = dict(servers or {})
        self._configured = settings
        self._timeout_ms = timeout_ms
        self._origin = origin
        self._engines: dict[tuple[str | None, ...], Engine] = {}
        self._desk: Desk | None = None
        self.settings = _with_servers(settings, self._servers, timeout_ms)
        super().__init__(
            partial(_open_store, settings.store if store is None else store, chosen),
            chosen,
            partial(redactor_for, self.settings, self._environment),
            budget=(settings.budget_calls, settings.budget_tokens),
            record_failures=record_failures,
            how_to_record=how_to_record,
            every_answer=settings.every_answer,
            prices=PriceList(settings.prices, settings.currency),
            rates={
                name: provider.requests_per_minute
                for name, provider in settings.providers.items()
                if provider.requests_per_minute is not None
            },
            surroundings=surroundings,
            name=name,
        )
        self.call_rules = CallRules(settings.mcp)
        self.fork_name = owner_name(self._environment.get(FORK_VARIABLE, ""))

    def _environment_of_run(self) -> Mapping[str, str]:
        return self._environment

    @classmethod
    def open(
        cls,
        settings: Settings | None = None,
        mode: AnyMode | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        **options: Any,
    ) -> Run:
        """A run whose store is open; without settings, with those that hold here.

        Raises:
            InvalidRequest: A setting cannot be.
            FixtureIntegrityFailed: The store is not what its index says.
        """
        if settings is None:
            settings = load_settings(Path(), os.environ, {"mode": mode}).settings
        run = cls(settings, mode, store, **options)
        _ = run.store
        return run

    def adapter(self, provider: str | None = None, scope: Scope | None = None) -> LlmAdapter:
        """An adapter that answers in the mode of a scope, by default in one of its own.

        Args:
            provider: Who is asked, where somebody is; by default the configured one.
            scope: Whose turns it takes.

        Raises:
            InvalidRequest: There is no such provider, it lacks its key, or a setting of it makes no sense.
        """
        from cortex_replay.engine.adapter import ScopeAdapter  # noqa: PLC0415 - who comes over HTTP needs none

        scope = scope or self.open_scope()
        if not scope.mode.asks:
            return ScopeAdapter(scope)
        from cortex_replay.run.adapters import adapter_for  # noqa: PLC0415 - replay asks nobody
        from cortex_replay.run.bypass import BypassAdapter  # noqa: PLC0415

        name = provider or self.settings.provider
        live = BypassAdapter(adapter_for(self.settings, provider, self.rate_of(name or "")))
        return ScopeAdapter(scope, live, None if name is None else {"provider": name})

    def engine(self, now: Mapping[str, str] | None = None) -> Engine:
        """The HTTP face of this run, for the servers that the environment names now.

        Args:
            now: The environment as it is, where it has been read already.
        """
        # Many runs need no HTTP.
        from cortex_replay.engine.http.engine import Engine  # noqa: PLC0415
        from cortex_replay.engine.http.upstreams import Upstreams  # noqa: PLC0415

        # Most variables are not there, and to ask os.environ for each would cost an error that it catches.
        named = tuple(map((dict(self._environment) if now is None else now).get, _URL_VARIABLES))
        if named not in self._engines:
            self._engines[named] = Engine(
                self,
                Upstreams(self._configured, self._environment, self._servers),
                self._environment,
                origin=self._origin,
                max_sensitivity=self.settings.max_sensitivity,
                timeout_ms=self._timeout_ms or _HTTP_TIMEOUT_MS,
            )
        return self._engines[named]

    def desk(self) -> Desk:
        """Where the run's MCP sessions are opened; always the same one."""
        if self._desk is None:
            from cortex_replay.run.mcp.desk import Desk  # noqa: PLC0415 - most runs have none
            from cortex_replay.run.mcp.http.servers import HttpServers  # noqa: PLC0415

            limit = self._timeout_ms or _HTTP_TIMEOUT_MS
            servers = HttpServers(
                self._configured, self._servers, self._environment, lambda: self.redactor, self.rate_of, limit
            )
            self._desk = Desk(self, servers)
        return self._desk


def _open_store(store: str | os.PathLike[str] | Store, mode: Mode) -> Store:
    if isinstance(store, Store):
        return store
    return (Store.open_or_create if mode.writes else Store.open)(store, verify="on-read")


def _with_servers(settings: Settings, servers: Mapping[str, str], timeout_ms: int | None) -> Settings:
    """The settings with the servers that were named, for those who ask by an adapter."""
    providers = {
        name: provider.at(servers[upstream_name(name)]) if upstream_name(name) in servers else provider
        for name, provider in settings.providers.items()
    }
    return replace(settings, providers=providers, timeout_ms=timeout_ms or settings.timeout_ms)
