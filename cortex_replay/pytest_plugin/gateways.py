"""One gateway for each worker, in the name of whichever test is running."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from cortex_replay.config import Settings
from cortex_replay.engine.http import Engine
from cortex_replay.faults import Faults
from cortex_replay.gateway.server import Gateway
from cortex_replay.run.environment import command_environment

__all__ = ["Gateways", "ScopedGateway"]


class ScopedGateway:
    """A gateway as one test has it: with its name in the URLs."""

    def __init__(self, gateway: Gateway, scope: str) -> None:
        self._gateway = gateway
        self._scope = scope

    def url(self, upstream: str = "") -> str:
        """The base URL for clients of a provider, such as ``anthropic``."""
        return self._gateway.url(upstream, self._scope)


class Gateways:
    """Starts the gateway with the first test that wants one."""

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._running = ExitStack()

    def scoped(
        self, engine: Engine, scope: str, faults: Faults, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> ScopedGateway:
        """The gateway for one test, whose subprocesses find it in their environment."""
        if self._gateway is None:
            self._gateway = self._running.enter_context(Gateway(engine).running())
        self._gateway.use(engine, faults)
        scoped = ScopedGateway(self._gateway, scope)
        made = command_environment(os.environ, settings, scoped.url)
        for name in made.keys() | os.environ.keys():
            if name not in made:
                monkeypatch.delenv(name)
            elif os.environ.get(name) != made[name]:
                monkeypatch.setenv(name, made[name])
        return scoped

    def close(self) -> None:
        self._running.close()
        self._gateway = None
