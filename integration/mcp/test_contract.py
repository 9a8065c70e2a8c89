"""What a project says of servers from the registry: their tools as a contract, policies, and faults.

The clients are the Python SDK's. Two versions of server-everything differ in nearly every tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from integration import install
from integration.mcp.reference_servers import entry_of, reference_servers
from integration.mcp.test_http import everything

OLDER: Final = "2025.12.18"
_CLIENT: Final = """
import asyncio, json, os, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "cortex_replay", "mcp", *sys.argv[2:]])

async def call(client, tool, arguments):
    try:
        result = await client.call_tool(tool, arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    said = getattr(result.content[0], "text", "no text")
    return f"failed: {said}" if result.is_error else said

async def main():
    async with Client(stdio_client(SERVER)) as client:
        await client.list_tools()
        for list_more in (client.list_prompts, client.list_resource_templates):
            try:
                await list_more()
            except Exception:
                pass
        for tool, arguments in json.loads(sys.argv[1]):
            print(json.dumps(await call(client, tool, arguments)), flush=True)

asyncio.run(main())
"""
_AGENT: Final = """
import asyncio, os, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TRIES = int(os.environ["TRIES"])
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "cortex_replay", "mcp", *sys.argv[1:]])

async def call(tool, arguments):
    for left in reversed(range(TRIES)):
        try:
            async with Client(stdio_client(SERVER), read_timeout_seconds=5) as client:
                result = await client.call_tool(tool, arguments)
                if not result.is_error:
                    return result.content[0].text
        except Exception:
            pass
    sys.exit(f"{tool} failed {TRIES} times")

async def main():
    total = await call("get-sum", {"a": 1, "b": 2})
    print(await call("echo", {"message": total}))

asyncio.run(main())
"""


def older_everything() -> Path:
    """server-everything as it was, installed once."""

    def put(folder: Path) -> None:
        npm = install.needed("npm", "install MCP servers")
        (folder / "package.json").write_text("{}")  # else npm looks for one above
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        package = f"@modelcontextprotocol/server-everything@{OLDER}"
        install.completed([npm, "install", "--prefix", folder, *options, package])

    return entry_of(install.once(install.BENCH / "mcp" / f"everything@{OLDER}", put), "everything")


def run(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cortex_replay", *map(str, words)]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def use(
    folder: Path, mode: str, calls: list[tuple[str, dict[str, object]]], *server: str | Path
) -> list[str]:
    """What tools answer a client behind the shim."""
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT, json.dumps(calls), "--mode", mode, *map(str, server)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_an_upgrade_of_everything_is_told_change_by_change(project: Path) -> None:
    older, newer = older_everything(), entry_of(reference_servers(), "everything")
    use(
        project,
        "record",
        [("echo", {"message": "x"}), ("add", {"a": 1, "b": 2})],
        "every",
        "--",
        "node",
        older,
    )

    same = run(project, "mcp", "check", "every", "--", "node", older)
    changed = run(project, "mcp", "check", "every", "--json", "--", "node", newer, "stdio")

    assert (same.returncode, changed.returncode) == (0, 4), same.stderr + changed.stderr
    assert "offers what is recorded" in same.stdout
    changes = {(one["name"], one["what"]): one for one in json.loads(changed.stdout)["changes"]}
    reworded = changes["echo", "description"]
    assert reworded["text"] == '"… the input" became "… the input string"'
    assert len(reworded["calls"]) == 1
    assert changes["add", "removed"]["calls"][0]["problem"] == "there is no such tool any more"
    assert changes["printEnv", "renamed"]["new_name"] == "get-env"
    assert ("get-sum", "added") in changes
    assert {one["of"] for one in changes.values()} == {"tool", "prompt", "resource template"}


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
def test_a_recording_over_stdio_is_checked_over_http(project: Path, transport: str) -> None:
    newer = entry_of(reference_servers(), "everything")
    use(project, "record", [], "every", "--", "node", newer, "stdio")

    with everything(transport) as url:
        done = run(project, "mcp", "check", "every", "--url", url)
        provider = f'[providers.every]\nkind = "mcp"\nbase_url = "{url}"'
        (project / "cortex-replay.toml").write_text(provider)
        configured = run(project, "mcp", "check", "every")

    assert (done.returncode, configured.returncode) == (0, 0), done.stdout + done.stderr + configured.stderr
    assert "offers what is recorded" in configured.stdout


def test_a_live_read_and_a_refused_write_of_the_file_system(project: Path) -> None:
    tree = project / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("one")
    server: list[str | Path] = ["files", "--", "node", entry_of(reference_servers(), "filesystem"), tree]
    (project / "cortex-replay.toml").write_text(
        '[mcp.files.tools]\nread_text_file = "live"\n"write_*" = "refuse"'
    )
    calls: list[tuple[str, dict[str, object]]] = [
        ("read_text_file", {"path": str(tree / "a.txt")}),
        ("list_directory", {"path": str(tree)}),
        ("write_file", {"path": str(tree / "b.txt"), "content": "no"}),
    ]

    recorded = use(project, "record", calls, *server)
    (tree / "a.txt").write_text("two")
    (tree / "c.txt").write_text("since")
    replayed = use(project, "replay", calls, *server)

    client = [sys.executable, "-c", _CLIENT, json.dumps(calls), *server]
    judged = run(project, "replay", "--fail-on", "live", "--", *client)

    assert judged.returncode == 4, judged.stderr
    assert "1 live" in judged.stderr
    assert "1 refused by policy" in judged.stderr
    assert (recorded[0], replayed[0]) == ("one", "two"), "the disk of today"
    assert recorded[1] == replayed[1] == "[FILE] a.txt", "the disk of then"
    assert all(
        answer[2].startswith("failed: cortex-replay: the settings refuse") for answer in (recorded, replayed)
    )
    assert not (tree / "b.txt").exists()
    stored = [path.read_text() for path in project.rglob("*.json")]
    assert stored
    assert not any(
        '"write_file", "arguments"' in text or '"name": "write_file",' in text[:400] for text in stored
    )


def test_a_sweep_over_the_tools_of_an_agent(project: Path) -> None:
    server = ["every", "--", "node", str(entry_of(reference_servers(), "everything")), "stdio"]
    agent = [sys.executable, "-c", _AGENT, *server]
    recorded = run(project, "record", "--no-key", "--mode", "record", "--", *agent, TRIES="1")
    assert recorded.returncode == 0, recorded.stderr
    faults = [word for kind in ("tool-error", "tool-shape", "tool-death") for word in ("--fault", kind)]

    fragile = run(project, "sweep", *faults, "--", *agent, TRIES="1")
    steady = run(project, "sweep", *faults, "--json", "--", *agent, TRIES="2")

    assert fragile.returncode == 4, fragile.stderr
    assert fragile.stdout.split()[-4:] == ["every/echo", "FAILED", "FAILED", "FAILED"]
    assert steady.returncode == 0, steady.stderr
    report = json.loads(steady.stdout)
    assert (report["calls"], report["tool_calls"], report["survived"]) == (0, 2, True)
    assert [one["verdict"] for one in report["runs"]] == ["survived"] * 6
