"""One WebSocket for the responses of one client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cortex_replay import Store
from cortex_replay.config import Settings
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.ws.upstream import ResponsesUpstream
from cortex_replay.run import Run
from tests.servers.websockets import socket_upstream

KEY = "of-the-upstream-alone-4711"
BODY = b'{"model": "m", "input": "one", "stream": true}'


def test_what_was_left_in_the_middle_is_not_taken_for_the_next_answer(tmp_path: Path) -> None:
    async def ask(upstream: ResponsesUpstream, environment: Any, pieces: int) -> list[bytes]:
        call = Call("POST", Route("openai", "/v1/responses", "openai-responses"), body=BODY)
        async with upstream.send(call, environment) as reply:
            return [await reply.body.read() for _ in range(pieces)]

    async def go(url: str) -> None:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1"}
        run = Run(Settings(), "record", Store.create(tmp_path), environment=environment)
        engine = run.engine()
        upstream = ResponsesUpstream(engine.relay, Call("GET", Route("openai", "/v1/responses", None)))
        await ask(upstream, environment, 2)
        first, *_ = await ask(upstream, environment, 1)
        assert b'"response.created"' in first
        assert b"upstream" in first
        await upstream.aclose()
        await engine.aclose()

    with socket_upstream(KEY) as server:
        asyncio.run(go(server.url))
        assert len(server.openings) == 2
