"""Calls around the gateway."""

from __future__ import annotations

import http.client
import json

import httpx
import pytest

from cortex_replay.gateway.guard import guarding
from tests.gateway.conftest import Opened
from tests.waiting import wait_until


@pytest.mark.parametrize("tunnel", [True, False])
def test_a_client_that_asks_a_proxy_for_this_machine_comes_to_the_gateway(
    opened: Opened, tunnel: bool
) -> None:
    """Whatever NO_PROXY says: some do not look at it."""
    noted: list[str] = []
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "q"}]}
    with opened() as gateway, guarding(f"127.0.0.1:{gateway.port}", noted.append) as url:
        if tunnel:
            port = int(url.rpartition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.set_tunnel("127.0.0.1", gateway.port)
            connection.request("POST", "/anthropic/v1/messages", json.dumps(body))
            status = connection.getresponse().status
            connection.close()
        else:
            with httpx.Client(proxy=url, trust_env=False) as client:
                answers = [
                    client.post(gateway.url("anthropic") + "/v1/messages", json=body) for _ in range(2)
                ]
            status = answers[0].status_code

        assert status == 424
        assert noted == []
        assert len(gateway.run.ledger.misses) == (1 if tunnel else 2)


def test_a_guard_notes_and_refuses() -> None:
    noted: list[str] = []
    with guarding("127.0.0.1:1", noted.append) as url:
        with pytest.raises(httpx.ProxyError):
            httpx.get("https://api.example.com/", proxy=url)
        assert httpx.get("http://u:p@example.com:81/x", proxy=url).status_code == 403
        port = int(url.rpartition(":")[2])
        with httpx.Client() as client:
            client.get(f"http://127.0.0.1:{port}/")
        wait_until(lambda: len(noted) == 3)

    assert noted[:2] == ["api.example.com:443", "example.com:81"]
