"""Programs that read no base URL, through the proxy; `make matrix` runs all clients by every road."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.matrix.clients import CLIENTS, Client
from integration.matrix.run import ROUNDS, World, judge, world

PLAIN = [
    client
    for client in CLIENTS
    if client.name in ("curl", "urllib", "requests", "fetch", "net/http", "reqwest")
]


@pytest.fixture(scope="module")
def here() -> Iterator[World]:
    with world() as servers:
        yield servers


@pytest.mark.parametrize("client", PLAIN, ids=lambda client: f"{client.language}-{client.name}")
def test_a_program_without_a_base_url_is_recorded_and_replayed(client: Client, here: World) -> None:
    good = {
        "recorded": True,
        "equal": ROUNDS,
        "stream": True,
        "tools": True,
        "structured": True,
        "miss": True,
    }

    assert judge(client, "proxy", here) == {**good, "why": ""}
