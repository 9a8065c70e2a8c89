"""The HTTP face of a run follows the servers that its environment names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config import Settings
from cortex_replay.providers import PROVIDERS
from cortex_replay.run import Run


@pytest.mark.parametrize("name", [name for name, row in PROVIDERS.items() if row.url_variable])
def test_a_server_that_is_named_later_is_asked_from_then_on(name: str, tmp_path: Path) -> None:
    """A test may set it. For the same servers it is the same face, also where others were named meanwhile."""
    environment = {"UNRELATED": "1"}
    run = Run(Settings(), "replay", tmp_path, environment=environment)
    first = run.engine()
    assert run.engine() is first

    environment[PROVIDERS[name].url_variable] = "http://127.0.0.1:8123"
    second = run.engine()
    assert any(server.base_url.startswith("http://127.0.0.1:8123") for server in second.upstreams)
    assert not any(server.base_url.startswith("http://127.0.0.1:8123") for server in first.upstreams)
    assert run.engine() is second

    del environment[PROVIDERS[name].url_variable]
    assert run.engine() is first
