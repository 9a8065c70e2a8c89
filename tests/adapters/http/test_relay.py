"""Requests of clients with our key: what a server is sent, and what it gives back of it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.http import Endpoint, RelayClient
from cortex_replay.adapters.secret import ApiKey

KEY = "only-the-gateway-knows-this-4711"


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_our_key_goes_out_once_and_never_comes_back(monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    """Whoever asked is meant to hold no key, and a server may repeat it in any header."""
    sent: list[httpx.Headers] = []

    async def handle(_: object, request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        return httpx.Response(401, headers={"x-echo": f"not {KEY}!", "x-other": "1"}, content=b"")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
    client = RelayClient(Endpoint("http://127.0.0.1:9"), key=ApiKey(KEY), key_header=header)

    async def main() -> dict[str, str]:
        reply = await client.relay("POST", "/x", [(header, "theirs"), ("x-a", "1")], b"", Deadline(60_000))
        await reply.body.aclose()
        return dict(reply.headers)

    answered = asyncio.run(main())
    assert (answered["x-echo"], answered["x-other"]) == ("not [REDACTED:known-value]!", "1")
    assert (sent[0].get_list(header), sent[0]["x-a"]) == ([KEY], "1")
