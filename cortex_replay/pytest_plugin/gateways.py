"""One gateway for each worker, in the name of whichever test is running."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from cortex_replay.engine.http.engine import Engine
from cortex_replay.faults import Faults
from cortex_replay.gateway.server import Gateway
from cortex_replay.run import Run
from cortex_replay.run.environment import command_environment

__all__ = ["Gateways", "ScopedGateway"]


class ScopedGateway:
    """A gateway as one test has it: with its name in the URLs."""

    def __init__(self, gateway: Gateway, scope: str) -> None:
        self._gateway = gateway
        self._scope = scope

    @property
    def authority(self) -> str:
        """Its host and port."""
        return f"{self._gateway.host}:{self._gateway.port}"

    def url(self, upstream: str = "") -> str:
        """The base URL for clients of a provider, such as ``anthropic``."""
        return self._gateway.url(upstream, self._scope)


class Gateways:
    """Starts a gateway with the first test that wants one; others where the providers' servers are others."""

    def __init__(self) -> None:
        self._by_engine: dict[Engine, Gateway] = {}
        self._running = ExitStack()

    def for_scope(
        self, run: Run, scope: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
    ) -> ScopedGateway:
        """The gateway for one test, whose subprocesses find it in their environment."""
        engine = run.engine()
        if engine not in self._by_engine:
            self._by_engine[engine] = self._running.enter_context(Gateway(run).running())
        gateway = self._by_engine[engine]
        gateway.set_faults(scope, faults)
        scoped = ScopedGateway(gateway, scope)
        environment = command_environment(os.environ, run.settings, scoped.url)
        for name in environment.keys() | os.environ.keys():
            if name not in environment:
                monkeypatch.delenv(name)
            elif os.environ.get(name) != environment[name]:
                monkeypatch.setenv(name, environment[name])
        return scoped

    def release(self, scope: str) -> None:
        """A test is over, and with it what was to go wrong."""
        for gateway in self._by_engine.values():
            gateway.set_faults(scope, None)

    def close(self) -> None:
        self._running.close()
        self._by_engine.clear()
