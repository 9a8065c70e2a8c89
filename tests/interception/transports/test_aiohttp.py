"""aiohttp: its sessions, traces, bodies and connectors stay as they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cortex_replay import Store, intercept
from tests.gateway.upstream import REAL_KEY, model_server
from tests.interception.clients import HEADERS

ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}


async def pieces() -> AsyncIterator[bytes]:
    body = json.dumps(ASKED).encode()
    yield body[:9]
    yield body[9:]


def test_bodies_of_every_kind_are_one_question(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = [
        {"json": ASKED},
        {"data": json.dumps(ASKED)},
        {"data": pieces()},
        {"json": ASKED, "expect100": True},
        {"json": ASKED, "compress": False, "chunked": True},
    ]

    async def ask(url: str) -> list[bytes]:
        async with aiohttp.ClientSession(headers=HEADERS, raise_for_status=True) as session:
            return [await (await session.post(f"{url}/v1/messages", **body)).read() for body in bodies]

    with model_server() as server:
        with intercept(tmp_path, "once") as interception:
            answers = asyncio.run(ask(server.url))
        assert [call.json for call in server.received] == [ASKED] * len(bodies)
    assert interception.calls == len(answers) == len(bodies)
    assert len(set(answers)) == len(Store.open(tmp_path)) == 1


def test_a_session_that_was_made_before_traces_and_connects_as_ever(tmp_path: Path) -> None:
    seen: list[str] = []

    async def note(_: Any, context: Any, parameters: Any) -> None:
        seen.append(type(parameters).__name__)

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(note)
    tracing.on_request_end.append(note)
    tracing.on_response_chunk_received.append(note)

    async def ask(url: str) -> list[int]:
        async with aiohttp.ClientSession(trace_configs=[tracing]) as session:
            assert session.connector is not None
            found = []
            for path, body in (("v1/messages", ASKED), ("messages", {"text": "Hello."}), ("other", None)):
                asked = session.post(f"{url}/{path}", json=body) if body else session.get(f"{url}/{path}")
                async with asked as answer:
                    await answer.read()
                    found.append(answer.status)
                found.append(sum(map(len, session.connector._conns.values())))
            assert not session.connector._acquired
            return found

    Store.create(tmp_path)
    with model_server() as server:
        with intercept(tmp_path, "replay") as interception:
            assert asyncio.run(ask(server.url)) == [424, 0, 404, 1, 404, 1], "and real connections are kept"
        assert len(server.received) == 2
    assert interception.calls == 1
    expected = ["TraceRequestStartParams", "TraceResponseChunkReceivedParams", "TraceRequestEndParams"]
    assert sorted(seen) == sorted(expected * 3)


def test_a_status_is_raised_and_a_websocket_is_not_ours(tmp_path: Path) -> None:
    Store.create(tmp_path)

    async def ask() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await session.get("https://api.openai.com/v1/models", headers={"x-api-key": REAL_KEY})
            assert (caught.value.status, caught.value.message) == (424, "Failed Dependency")
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.ws_connect("wss://api.openai.com/v1/realtime")

    with intercept(tmp_path, "replay") as interception:
        asyncio.run(ask())
    assert interception.calls == 1
    assert interception.scope.run.ledger.bypassed == {"api.openai.com": 1}
