"""Marked tests that use MCP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent

import mcp.client.stdio  # noqa: F401 - or each run in this process imports all of it
import pytest

from tests.nested import LIGHT
from tests.pytest_plugin.conftest import run_in_process

SERVER = Path(__file__).parents[1] / "interception" / "mcp" / "tools_server.py"
OPENING = f"""
    import sys
    import pytest
    from mcp import ClientSession, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client

    PARAMETERS = StdioServerParameters(command={sys.executable!r}, args=[{str(SERVER)!r}, "heard"])

    @pytest.fixture(scope="module")
    def anyio_backend():
        return "asyncio"

    async def call(session, tool, **arguments):
        return (await session.call_tool(tool, arguments)).content[0].text
"""


@pytest.fixture(autouse=True)
def _anyio(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are coroutines."""
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{LIGHT['PYTEST_ADDOPTS']} -p anyio")


def starts(project: pytest.Pytester) -> int:
    """How often the server was started."""
    file = project.path / "heard"
    return file.read_text().count("started\n") if file.exists() else 0


def write(project: pytest.Pytester, name: str, *sources: str) -> None:
    project.makepyfile(**{name: "\n".join(dedent(source) for source in (OPENING, *sources))})


ALONE = """
    @pytest.mark.llm_replay
    @pytest.mark.anyio
    @pytest.mark.parametrize("n", [1, 2])
    async def test_alone(n, llm_recording):
        async with stdio_client(PARAMETERS) as streams, ClientSession(*streams) as session:
            await session.initialize()
            assert [await call(session, "count"), await call(session, "count")] == ["1", "2"]
            assert await call(session, "echo", n=n) == f'{{"n": {n}}}'
        assert llm_recording.calls == []
"""


def test_a_marked_test_needs_no_server_in_replay(project: pytest.Pytester) -> None:
    """What a test asks of a server is no call to a model, but it is counted."""
    write(project, "test_alone", ALONE)

    recorded = run_in_process(project, "--llm-mode", "once")
    started = starts(project)
    replayed = run_in_process(project)

    recorded.assert_outcomes(passed=2)
    recorded.stdout.fnmatch_lines(["* 0 misses, * recorded, * live*"])
    replayed.assert_outcomes(passed=2)
    replayed.stdout.fnmatch_lines(
        ["10 hits, 0 misses, 0 recorded, 0 live*", "MCP server tools_server: 10 hits"]
    )
    assert started == starts(project) == 2


def test_calls_that_no_test_makes_are_unused(project: pytest.Pytester) -> None:
    write(project, "test_alone", ALONE)
    run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=2)
    write(project, "test_alone", ALONE.replace("[1, 2]", "[1]"))

    result = run_in_process(project, "--llm-fail-unused", "--llm-report", "used.json")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["unused: *, tools_server echo(n=2)", "error: 1 call to MCP servers is unused: *"]
    )
    report = json.loads((project.path / "used.json").read_text())
    assert [call["what"] for call in report["unused_calls"]] == ["echo(n=2)"]
    assert report["servers"]["tools_server"]["hits"] == 5


SHARED = """
    @pytest.fixture(scope="module")
    async def session(anyio_backend):
        async with stdio_client(PARAMETERS) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session

    @pytest.mark.llm_replay
    @pytest.mark.anyio
    async def test_first(session):
        assert await call(session, "count") == "1"

    @pytest.mark.llm_replay
    @pytest.mark.anyio
    async def test_second(session):
        assert await call(session, "count", again=True) == "2"
        assert await call(session, "echo", second=True) == '{"second": true}'
"""


def test_a_client_that_tests_share_belongs_to_the_one_that_runs(project: pytest.Pytester) -> None:
    """Each can be replayed without the other, and recorded again."""
    write(project, "test_shared", SHARED)

    run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=2)
    assert starts(project) == 1
    run_in_process(project).assert_outcomes(passed=2)
    run_in_process(project, "-k", "second").assert_outcomes(passed=1)
    assert starts(project) == 1


def test_a_shared_client_greets_a_server_that_a_later_test_needs(project: pytest.Pytester) -> None:
    """The first test is replayed, so nobody has shaken hands with the server that the second starts."""
    write(project, "test_shared", SHARED.replace('"2"', '"1"'))

    run_in_process(project, "--llm-mode", "once", "-k", "first").assert_outcomes(passed=1)
    run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=2)
    assert starts(project) == 2
    heard = (project.path / "heard").read_text().rpartition("started\n")[2].splitlines()
    assert ["initialize" in heard[0], "notifications/initialized" in heard[1]] == [True, True]
    run_in_process(project).assert_outcomes(passed=2)


FAILING = """
    @pytest.mark.llm_replay
    @pytest.mark.anyio
    async def test_fails():
        async with stdio_client(PARAMETERS) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await call(session, "count")
        assert not "as it should be"
"""


def test_what_a_failed_test_recorded_is_dropped(project: pytest.Pytester) -> None:
    write(project, "test_failing", FAILING)

    run_in_process(project, "--llm-mode", "once").assert_outcomes(failed=1)
    assert not [*project.path.rglob("*.json")]
    run_in_process(project, "--llm-mode", "once", "--llm-keep-failed").assert_outcomes(failed=1)
    assert [*project.path.rglob("*.json")]


def test_a_miss_stands_in_the_report(project: pytest.Pytester) -> None:
    write(project, "test_alone", ALONE)

    result = run_in_process(project)

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*MCPError: cortex-replay: nothing is recorded for*", "*To record it: pytest*"]
    )
    result.stdout.fnmatch_lines(["0 hits, 2 misses, 0 recorded, 0 live*"])
    assert starts(project) == 0


@pytest.mark.parametrize(
    ("mark", "ini", "outcome"),
    [
        ("mcp=False, allow_no_calls=True", "", "passed"),
        ("allow_no_calls=True", "llm_mcp = false", "passed"),
        ("mcp={'tools*': False}, allow_no_calls=True", "", "passed"),
        ("mcp=True", "llm_mcp = false", "failed"),
        ("mcp={'tools*': 'other'}", "", "failed"),
        ("mcp=5", "", "errors"),
        ("", "llm_mcp = false", "failed"),
    ],
)
def test_a_marker_leaves_servers_alone(project: pytest.Pytester, mark: str, ini: str, outcome: str) -> None:
    """Nothing is recorded, so whoever is replayed fails; and so does who asks nobody that we know of."""
    project.makeini(f"[pytest]\nllm_store = llm\n{ini}\n")
    write(project, "test_alone", ALONE.replace("llm_replay", f"llm_replay({mark})").replace("[1, 2]", "[1]"))

    result = run_in_process(project)

    result.assert_outcomes(**{outcome: 1})
    if outcome == "errors":
        result.stdout.fnmatch_lines(["*llm_replay: *mcp*patterns and names*"])
    if "other" in mark:
        result.stdout.fnmatch_lines(["*nothing is recorded*other*"])


FAULTY = """
    async def echo(tries):
        async with stdio_client(PARAMETERS) as streams, ClientSession(*streams) as session:
            await session.initialize()
            for left in reversed(range(tries)):
                try:
                    result = await session.call_tool("echo", {"n": 1})
                except MCPError:
                    if not left:
                        raise
                    continue
                if not result.is_error:
                    break
            return result.content[0].text

    @pytest.mark.llm_faults
    @pytest.mark.anyio
    async def test_steady():
        assert await echo(2) == '{"n": 1}'

    @pytest.mark.llm_faults("tool-fail:*/echo", "tool-death", "tool-shape")
    @pytest.mark.anyio
    async def test_fragile():
        assert await echo(1) == '{"n": 1}'
"""


def test_a_tool_fails_in_every_way_and_the_recording_goes_on(project: pytest.Pytester) -> None:
    """Of a test that asks no model, only the calls of tools fail."""
    write(project, "test_faulty", FAULTY)

    run_in_process(project, "--llm-mode", "once").assert_outcomes(passed=2)
    result = run_in_process(project, "-v")

    result.assert_outcomes(passed=3 + 1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*test_steady?recorded? PASSED*",
            "*test_steady?tool-error@1? PASSED*",
            "*test_steady?tool-fail@1? PASSED*",
            "*test_fragile?recorded? PASSED*",
            "*test_fragile?tool-fail:*/echo@1? FAILED*",
            "*test_fragile?tool-death@1? FAILED*",
            "*test_fragile?tool-shape@1? FAILED*",
            "*Connection closed*",
        ]
    )
