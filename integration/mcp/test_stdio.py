"""Servers in TypeScript and Go behind the shim, by clients of two SDKs: recorded, replayed without them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from integration import install
from integration.mcp.reference_servers import copy_servers, entry_of, reference_servers

CLIENTS: Final = Path(__file__).parent / "clients"
PROGRAM: Final = os.fspath(Path(sys.executable).with_name("cortex-replay"))
GO_SDK: Final = "1.8.0"
ENTITY: Final = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}


def go_server() -> Path:
    """The example of the Go SDK that remembers things."""

    def fill(folder: Path) -> None:
        go = install.needed("go", "build an MCP server")
        package = f"github.com/modelcontextprotocol/go-sdk/examples/server/memory@v{GO_SDK}"
        install.completed([go, "install", package], GOBIN=os.fspath(folder))

    return install.once(install.BENCH / "mcp" / f"go-memory@{GO_SDK}", fill) / "memory"


class Work:
    """Servers that can be taken away, and what a client asks them."""

    def __init__(self, folder: Path) -> None:
        self.servers = copy_servers(folder / "servers")
        shutil.copy(go_server(), self.servers / "go-memory")
        self.data = folder / "data"
        self.data.mkdir()
        (self.data / "note.txt").write_text("remember the milk")

    def of(self, name: str) -> tuple[list[str], list[Any]]:
        """The command of a server, and the calls."""
        if name == "filesystem":
            command = ["node", os.fspath(entry_of(self.servers, name)), os.fspath(self.data)]
            note = os.fspath(self.data / "note.txt")
            return command, [["read_text_file", {"path": note}], ["list_allowed_directories", {}]]
        calls = [["create_entities", {"entities": [ENTITY]}], ["read_graph", {}], ["read_graph", {}]]
        if name == "memory":
            return ["node", os.fspath(entry_of(self.servers, name))], calls
        return [os.fspath(self.servers / "go-memory")], calls


def client_of(kind: str) -> list[str]:
    if kind == "python":
        return [sys.executable, "-W", "ignore", os.fspath(CLIENTS / "tools.py")]
    return [install.needed("node", "run the client"), os.fspath(CLIENTS / "tools.cjs")]


@pytest.mark.parametrize("is_in_run", [True, False], ids=["in a run", "alone"])
@pytest.mark.parametrize("name", ["filesystem", "memory", "go-memory"])
@pytest.mark.parametrize("kind", ["python", "typescript"])
def test_a_server_is_replayed_without_it(tmp_path: Path, kind: str, name: str, is_in_run: bool) -> None:
    work = Work(tmp_path)
    command, calls = work.of(name)

    def ask(mode: str) -> list[str]:
        options = [] if is_in_run else ["--mode", mode]
        client = [*client_of(kind), json.dumps(calls), PROGRAM, "mcp", name, *options, "--", *command]
        words = [PROGRAM, mode, *(["--no-key"] if mode == "record" else []), "--", *client]
        done = subprocess.run(
            words if is_in_run else client,
            cwd=tmp_path,
            env={**os.environ, "MCP_MODULES": os.fspath(reference_servers())},
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
            text=True,
        )
        return done.stdout.splitlines()

    recorded = ask("record")
    shutil.rmtree(work.servers)
    shutil.rmtree(work.data)
    replayed = [ask("replay") for _ in range(3)]

    assert len(recorded) == 1 + len(calls)
    assert ("milk" if name == "filesystem" else "Ada") in "".join(recorded[1:])
    assert replayed == [recorded] * 3
    subprocess.run([PROGRAM, "verify", "--strict"], cwd=tmp_path, check=True)
