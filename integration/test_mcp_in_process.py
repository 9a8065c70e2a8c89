"""The Python SDK of MCP, 1.x and 2.x, and fastmcp in marked tests: recorded, and replayed with no server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from integration.test_libraries_in_process import python_with
from tests.servers.process import running

FOLDER = Path(__file__).parent / "in_process" / "mcp"
TOOLS = ("pytest==9.2.0", "pytest-asyncio==1.4.1.post1", "pytest-xdist==3.8.0", "trio==0.32.0")
SDKS = {
    "1.x": (*TOOLS, "mcp==1.30.0"),
    "2.x": (*TOOLS, "mcp==2.3.0"),
    "fastmcp": (*TOOLS, "fastmcp==3.4.10"),
}
ADDRESS = r"running on http://127\.0\.0\.1:(\d+)"


class Outcome(NamedTuple):
    """How a run of the tests went."""

    status: int
    output: str
    results: dict[str, str]
    starts: int
    """How many servers were started so far."""


Run = Callable[..., Outcome]


@pytest.fixture(scope="module", params=SDKS)
def sdk(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def python(sdk: str) -> str:
    return python_with(SDKS[sdk], f"mcp-{sdk}")


@pytest.fixture
def run(tmp_path: Path, sdk: str, python: str) -> Run:
    """Runs the tests of an SDK in a project of their own."""
    calls = "fastmcp_calls.py" if sdk == "fastmcp" else "sdk_calls.py"
    shutil.copy(FOLDER / calls, tmp_path / "test_calls.py")
    shutil.copy(FOLDER / "tools.py", tmp_path)
    results = tmp_path / "results"
    results.mkdir()

    def go(*options: str, around: Sequence[str] = (), **variables: str) -> Outcome:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        environment |= {"RESULTS": str(results), "STARTS": str(tmp_path / "starts"), **variables}
        done = subprocess.run(
            [*around, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store", "llm", *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        answered = {file.name: file.read_text() for file in results.iterdir()}
        starts = tmp_path / "starts"
        started = starts.read_text().count("started") if starts.exists() else 0
        return Outcome(done.returncode, done.stdout, answered, started)

    return go


def test_sessions_are_replayed_without_servers(run: Run, tmp_path: Path, python: str) -> None:
    """Over every transport, by every client, in one process and in two, with and without the others."""
    server = [python, str(tmp_path / "tools.py")]
    with (
        running([*server, "streamable-http", "0"], tmp_path / "http.log") as http,
        running([*server, "sse", "0"], tmp_path / "sse.log") as sse,
    ):
        ports = {"HTTP_PORT": http.announced(ADDRESS), "SSE_PORT": sse.announced(ADDRESS)}
        recorded = run("--llm-mode", "once", **ports)
    assert recorded.status == 0, recorded.output[-6000:]
    assert recorded.starts > 0

    for options in ((), ("-n", "2"), ("-k", "second or client or alone")):
        replayed = run(*options)
        assert replayed.status == 0, replayed.output[-6000:]
        assert " 0 misses, 0 recorded, 0 live" in replayed.output
        assert replayed.results == recorded.results
        assert replayed.starts == recorded.starts
    exchanges = [file.read_text() for file in (tmp_path / "llm").rglob("*.json")]
    assert exchanges
    assert not [text for text in exchanges if '"POST"' in text], "what is MCP is not recorded as HTTP, too"


def test_two_workers_record_one_store(run: Run) -> None:
    """Two processes ask the same server at once."""
    chosen = "stdio or parametrised or shared or made or config"
    recorded = run("--llm-mode", "once", "-n", "2", "-k", chosen)
    assert recorded.status == 0, recorded.output[-6000:]
    replayed = run("-k", chosen)

    assert replayed.status == 0, replayed.output[-6000:]
    assert replayed.results == recorded.results
    assert replayed.starts == recorded.starts


def test_a_command_around_the_tests_records_them(run: Run, sdk: str, python: str) -> None:
    """As ``cortex-replay record -- pytest``: the command has the keys and the store, and the tests ask it."""
    if sdk == "fastmcp":
        pytest.skip("it has the sessions of 1.x")
    chosen = "stdio or parametrised or shared or made"
    command = str(Path(python).with_name("cortex-replay"))
    recorded = run("-k", chosen, around=[command, "record", "--no-key", "--store", "llm", "--"])
    assert recorded.status == 0, recorded.output[-6000:]
    replayed = run("-k", chosen)

    assert replayed.status == 0, replayed.output[-6000:]
    assert " 0 misses, 0 recorded, 0 live" in replayed.output
    assert replayed.results == recorded.results
    assert replayed.starts == recorded.starts


def test_a_miss_starts_nothing(run: Run, sdk: str) -> None:
    if sdk == "fastmcp":
        pytest.skip("it has the sessions of 1.x")
    run("--llm-mode", "once", "-k", "parametrised and 1")
    missed = run("-k", "parametrised and 2")

    assert missed.status == 1
    assert "nothing is recorded for" in missed.output
    assert "test_calls.py::test_parametrised[2]" in missed.output
    assert missed.starts == 1


def test_trio_is_refused_in_plain_words(run: Run, sdk: str, tmp_path: Path) -> None:
    """A server that is started there is not recorded, so none is."""
    if sdk == "fastmcp":
        pytest.skip("it does not run on trio")
    (tmp_path / "test_calls.py").unlink()
    (tmp_path / "test_trio.py").write_text(
        "import sys, pytest\n"
        "from mcp import StdioServerParameters\n"
        "from mcp.client.stdio import stdio_client\n"
        "@pytest.mark.llm_replay\n@pytest.mark.anyio\n"
        "@pytest.mark.parametrize('anyio_backend', ['trio'])\n"
        "async def test_it():\n"
        "    server = StdioServerParameters(command=sys.executable, args=['tools.py', 'stdio'])\n"
        "    async with stdio_client(server): pass\n"
    )
    refused = run("--llm-mode", "once")

    assert refused.status == 1
    assert "on asyncio only" in refused.output
    assert refused.starts == 0
