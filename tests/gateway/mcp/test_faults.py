"""Calls of tools over HTTP that go wrong on demand."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.errors import Transport
from cortex_replay.faults import Fault, Faults
from cortex_replay.faults.tools import strike_by
from cortex_replay.gateway import Gateway
from cortex_replay.modes import Mode
from cortex_replay.run import Run
from tests.gateway.mcp.client import House, house_at, request
from tests.gateway.mcp.test_door import answer


def with_faults(house: House, *faults: str) -> House:
    house.run.call_rules.add_faults(strike_by(Faults(map(Fault.parse, faults))))
    return house


def test_errors_and_rubbish_over_http(tmp_path: Path) -> None:
    async def whole() -> None:
        async with house_at(tmp_path, Mode.LIVE, answer) as opened:
            house = with_faults(opened, "tool-error@1", "tool-fail@2", "tool-shape@3", "tool-not-json@4")
            session = await house.begin()
            error, failure, shape = [await house.call(session, "read", n) for n in (1, 2, 3)]
            rubbish = await house.call(session, "read", 4)
            good = await house.call(session, "read", 5)

        assert error.json["result"]["isError"] is True
        assert failure.json["error"]["message"] == "Internal error (on demand)"
        assert shape.json["result"] == {"content": 0}
        with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
            json.loads(rubbish.body)
        assert rubbish.status == 200
        assert "result" in good.json

    asyncio.run(whole())


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
def test_a_server_that_dies_breaks_the_connection_and_the_session(tmp_path: Path, accept: str) -> None:
    async def whole() -> None:
        async with house_at(tmp_path, Mode.LIVE, answer) as opened:
            house = with_faults(opened, "tool-death@1")
            session = await house.begin()
            dying = house.open(
                "POST", request("tools/call", 1, name="read"), mcp_session_id=session, accept=accept
            )
            assert dying.task is not None
            with pytest.raises(Transport):
                await asyncio.wait_for(dying.task, 10)
            after = await house.call(session, "read", 2)
            again = await house.call(await house.begin(), "read", 3)

        assert (dying.status, dying.is_whole) == (200, False)
        assert after.status == 404, "with its server, the session has ended"
        assert "result" in again.json

    asyncio.run(whole())


def test_a_tool_that_hangs_over_http(tmp_path: Path) -> None:
    async def whole() -> None:
        async with house_at(tmp_path, Mode.LIVE, answer) as opened:
            house = with_faults(opened, "tool-hang@1")
            session = await house.begin()
            hanging = house.open("POST", request("tools/call", 1, name="read"), mcp_session_id=session)
            good = await house.call(session, "read", 2)
            assert "result" in good.json
            assert hanging.messages == [] if hanging.status else True
            await hanging.leave()

    asyncio.run(whole())


def put(gateway: Gateway, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
    method = "PUT" if path.endswith("/-/faults") else "POST"
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    told = response.read()
    connection.close()
    return response.status, json.loads(told)


def test_the_control_endpoint_sets_faults_of_tools(tmp_path: Path) -> None:
    """For one scope; calls of another are not hit. Nothing is recorded, so all else is a miss."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    call = request("tools/call", 1, name="read", _meta=meta)
    run = Run.open(mode="once", store=tmp_path / "store")
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "read", "MCP-Protocol-Version": "2026-07-28"}
    headers["Accept"] = "application/json, text/event-stream"
    with Gateway(run).running() as gateway:
        base = "/" + gateway.url("-").split("/", 3)[3]
        told = put(gateway, f"{base}/faults", {"faults": ["tool-error:files/*@1"], "scope": "mine"})
        mine, other = (
            put(gateway, f"{gateway.url('mcp/files', scope).split(str(gateway.port), 1)[1]}", call, **headers)
            for scope in ("mine", "other")
        )

    assert told[1]["faults"]["mine"] == ["tool-error:files/*@1"]
    assert mine[1]["result"]["isError"] is True
    assert "error" in other[1]
