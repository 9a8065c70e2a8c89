"""Forks of agents with real SDKs: of tests behind a gateway, and with an MCP server that has a state."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import Store
from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import Result, Shell
from tests.gateway.upstream import REAL_KEY, model_server


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Without keys."""
    names = ("PATH", "SSL_CERT_FILE", "LANG")
    return Shell(
        tmp_path, {"HOME": str(tmp_path), **{name: os.environ[name] for name in names if name in os.environ}}
    )


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A scripted model server that counts its calls."""
    with model_server() as serving:
        yield serving


AGENTS = """
import os
import anthropic, pytest
pytestmark = pytest.mark.llm_replay

def chat(*prompts):
    client, messages = anthropic.Anthropic(max_retries=0), []
    for prompt in prompts:
        messages.append({"role": "user", "content": prompt})
        with client.messages.stream(model="m", max_tokens=9, messages=messages) as stream:
            said = stream.get_final_text()
        messages.append({"role": "assistant", "content": said})
        print("said", prompt, said)

@pytest.mark.parametrize("who", ["a", "b"])
def test_agent(who):
    chat(f"{who} one", f"{who} two", f"{who} three" + os.environ.get("EDIT", ""))
"""


def test_every_test_forks_by_itself(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Behind its second call; streamed, with another SDK. The road replays in the process of the tests."""
    (tmp_path / "test_agents.py").write_text(AGENTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_store = llm\n")
    own = {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": REAL_KEY}
    behind = ["--", sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"]

    def talk_in(result: Result) -> list[str]:
        assert (result.status, "2 passed" in result.out) == (0, True), result.out + result.talk
        return [line.lstrip(".") for line in result.out.splitlines() if "said " in line]

    recorded = talk_in(shell.run("record", "--store", "llm", *behind, **own))
    assert len(provider.received) == 6
    fork = ["replay", "--store", "llm", "--from", "2", "--live", "--as", "x"]
    road = talk_in(shell.run(*fork, *behind, **own, EDIT="!"))
    assert len(provider.received) == 8, "one for each test"
    assert [line for line in road if "!" not in line] == [line for line in recorded if "three" not in line]
    assert {*Store.open(tmp_path / "llm").scopes} >= {f"x/test_agents.py::test_agent[{who}]" for who in "ab"}

    assert talk_in(shell.run("replay", "--store", "llm", "--scope", "x", *behind, EDIT="!")) == road
    assert talk_in(shell.run("replay", "--store", "llm", *behind)) == recorded
    assert len(provider.received) == 8


SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("counter")
total = 0

@server.tool()
def add(by: int) -> str:
    global total
    total += by
    with open("calls.log", "a") as log:
        log.write(f"{by}\\n")
    return f"{os.environ.get('SAY', 'total')} {total}"

server.run()
"""
AGENT = """
import asyncio, os, sys
import openai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    shim = ["-m", "cortex_replay", "mcp", "counter", "--", sys.executable, "server.py"]
    client = openai.AsyncOpenAI(max_retries=0)
    server = StdioServerParameters(command=sys.executable, args=shim, env=dict(os.environ))
    async with stdio_client(server) as (r, w):
        async with ClientSession(r, w) as session:
            await session.initialize()
            messages = []
            for turn in range(1, 6):
                prompt = f"turn {turn}" + (os.environ.get("EDIT", "") if turn == 4 else "")
                messages.append({"role": "user", "content": prompt})
                made = await client.chat.completions.create(model="m", messages=messages)
                messages.append({"role": "assistant", "content": made.choices[0].message.content})
                done = await session.call_tool("add", {"by": turn})
                messages.append({"role": "user", "content": done.content[0].text})
                print("said", made.choices[0].message.content, "/", done.content[0].text)

asyncio.run(main())
"""


def test_an_mcp_server_goes_on_from_its_state(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Five turns with a tool each; behind the third, models and the server are asked."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "agent.py").write_text(AGENT)
    log = tmp_path / "calls.log"
    own = {"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    behind = ["--", sys.executable, "agent.py"]

    recorded = shell.run("record", "--store", "llm", *behind, **own)
    assert (recorded.status, len(provider.received)) == (0, 5), recorded.talk
    assert recorded.out.splitlines()[-1].endswith("/ total 15")
    log.unlink()

    options = ["--store", "llm", "--from", "3", "--live", "--as", "x", "--json"]
    forked = shell.run("replay", *options, *behind, **own, EDIT="!")
    assert (forked.status, len(provider.received)) == (0, 7), forked.talk
    *road, _ = forked.out.splitlines()
    assert road[:3] == recorded.out.splitlines()[:3]
    assert road[-1].endswith("/ total 15"), "the server was told of the first three"
    assert log.read_text().split() == ["1", "2", "3", "4", "5"]
    assert forked.report["servers"]["counter"]["live"] == 2
    log.unlink()

    for scope, edit, said in (("x", "!", road), ("", "", recorded.out.splitlines())):
        named = ["--scope", scope] if scope else []
        again = shell.run("replay", "--store", "llm", *named, *behind, EDIT=edit)
        assert (again.status, again.out.splitlines()) == (0, said), again.talk
    assert len(provider.received) == 7
    assert not log.exists(), "no server was started"
