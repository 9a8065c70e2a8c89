"""``cortex-replay mcp check``: what a server offers now, beside what is recorded."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from cortex_replay.cli.main import main
from cortex_replay.cli.mcp import mcp_command
from cortex_replay.cli.mcp_check import check_command
from cortex_replay.cli.options import split_command
from cortex_replay.modes import Mode
from cortex_replay.types import TokenUsage
from tests.cli.commands import run
from tests.engine.mcp.harness import Client, FakeServer, run_at
from tests.history.recordings import Recording, record, record_list

READ: dict[str, Any] = {
    "name": "read_file",
    "description": "Read a file from the disk.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
LIST: dict[str, Any] = {"name": "list", "description": "List files.", "inputSchema": {"type": "object"}}

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
SERVER = """
import json, sys
offer = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    method, found = message["method"], message.get("id")
    if found is None:
        continue
    cursor = int((message.get("params") or {}).get("cursor", 0))
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake"}}
    if method == "tools/list":
        pages = offer["pages"]
        result = {"tools": pages[cursor]}
        if cursor + 1 < len(pages):
            result["nextCursor"] = str(cursor + 1)
        print(json.dumps({"jsonrpc": "2.0", "id": "ask", "method": "roots/list"}), flush=True)
        assert json.loads(sys.stdin.readline())["result"] == {"roots": []}
        print("what is for people", flush=True)
    elif method != "initialize":
        sys.exit("this client asks for too much: " + method)
    elif message["params"]["capabilities"] != {"roots": {}}:
        sys.exit("this is not the recorded client")
    print(json.dumps({"jsonrpc": "2.0", "id": found, "result": result}), flush=True)
"""


def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A server of two tools, on two pages."""
    if "id" not in message:
        return []
    result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    if message["method"] == "tools/list":
        is_first = "cursor" not in message["params"]
        result = {"tools": [READ], "nextCursor": "2"} if is_first else {"tools": [LIST]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "."}]}
    return [{"id": message["id"], "result": result}]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is offered the tools, and calls of one of them."""
    root = tmp_path_factory.mktemp("recorded") / "store"
    offered = [
        {"name": f"mcp__files__{one['name']}", **{key: one[key] for key in ("description", "inputSchema")}}
        for one in (READ, LIST)
    ]
    big = {"rules": "Be brief, whatever you are asked. " * 400}
    usage = TokenUsage(4000, 10, cache_write_tokens=3900)
    record(
        root,
        Recording(0, big, fields={"tools": offered}, markers=[("system", 1)], usage=usage),
        Recording(9, {"rules": "No tools."}),
    )

    async def use() -> None:
        core = run_at(root, Mode.RECORD)
        client = Client(core, FakeServer(reply), "files")
        await client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}}, id=1)
        await client.ask("tools/list", {}, id=2)
        await client.ask("tools/list", {"cursor": "2"}, id=3)
        for number, path in enumerate(("a.txt", "b.txt"), start=4):
            await client.ask("tools/call", {"name": "read_file", "arguments": {"path": path}}, id=number)
        await client.session.close()
        core.commit()

    asyncio.run(use())
    return root


@pytest.fixture
def store(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = shutil.copytree(recorded, tmp_path / "store")
    monkeypatch.chdir(root)
    return root


def check(*pages: list[dict[str, Any]], options: tuple[str, ...] = ()) -> Result:
    server = [sys.executable, "-S", "-c", SERVER, json.dumps({"pages": pages})]
    return run("mcp", "check", "files", *options, "--", *server)


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_server_that_offers_the_same(store: Path) -> None:
    before = files_in(store)

    done = check([LIST], [READ])

    assert (done.exit_code, done.stdout) == (0, "files (fake) offers what is recorded.\n")
    assert files_in(store) == before, "nothing is written"


NEEDS_MORE = READ | {
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "encoding": {"type": "string"}},
        "required": ["path", "encoding"],
    }
}


def test_each_change_and_what_it_touches(store: Path) -> None:
    done = check([NEEDS_MORE | {"description": "Read a file from the net."}], options=("--json",))
    told = json.loads(done.stdout)

    assert done.exit_code == 4
    assert [(one["name"], one["what"], one["text"], one["is_breaking"]) for one in told["changes"]] == [
        ("read_file", "description", '"… from the disk." became "… from the net."', False),
        ("read_file", "input", "encoding: added, and required", True),
        ("list", "removed", "is not there any more", True),
    ]
    described, needs, gone = told["changes"]
    assert [call["problem"] for call in described["calls"]] == [None, None]
    assert all("encoding" in call["problem"] for call in needs["calls"])
    assert {(store / call["path"]).is_file() for call in needs["calls"]} == {True}
    assert gone["calls"] == []
    assert [len(one["prompts"]) for one in told["changes"]] == [1, 1, 1]
    assert [len(one["lists"]) for one in told["changes"]] == [2, 2, 2]


def test_what_it_says_to_a_person(store: Path) -> None:
    done = check([NEEDS_MORE, LIST])

    assert done.exit_code == 4
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "tool read_file",
        "  input: encoding: added, and required  (breaking)",
        "  touches 2 recorded calls, 2 of which it would refuse now:",
    ]
    assert 'read_file(path="a.txt"): "encoding" is a required property' in lines[3]
    assert "  1 recorded prompt offers it" in lines
    assert "1 change (1 breaking), 2 recorded calls touched, 2 refused" in done.stderr


def test_a_changed_description_costs_what_stands_behind_it(store: Path) -> None:
    (store / "cortex-replay.toml").write_text(
        'currency = "USD"\n[prices."claude-haiku-5-5"]\ninput = 1\noutput = 5\ncached = 0.1'
    )
    changed = check([READ | {"description": "Read a file from the net."}, LIST], options=("--json",))
    other = check([READ | {"annotations": {"readOnlyHint": True}}, LIST], options=("--json",))

    [cost] = json.loads(changed.stdout)["cache"]
    assert cost["tokens"] > 3000
    assert cost["per_call"]["unit"] == "money"
    assert cost["block"] == "tool 'mcp__files__read_file'"
    assert json.loads(other.stdout)["cache"] == [], "models do not see annotations"
    told = check([READ | {"description": "Read a file from the net."}, LIST]).stdout
    assert "Tools stand in front of a prompt" in told
    assert f"{cost['tokens']:,} cached tokens" in told


def test_only_what_breaks(store: Path) -> None:
    reworded = check([READ | {"description": "Read."}, LIST], options=("--breaking",))

    assert (reworded.exit_code, "description" in reworded.stdout) == (0, True)
    assert check([NEEDS_MORE, LIST], options=("--breaking",)).exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nobody", "--", "true"], 3, "nothing is recorded of nobody (recorded: files)"),
        (["files", "--", "/nothing/there"], 1, "/nothing/there cannot be started"),
        (["files"], 2, "give the server behind --"),
        (["files", "--url", "http://127.0.0.1:9/mcp", "--", "true"], 2, "not both"),
        (["files", "--url", "nonsense"], 2, "is not an http or https URL"),
        ([], 2, "Missing argument 'NAME'"),
    ],
)
def test_what_cannot_be_checked(store: Path, arguments: list[str], status: int, said: str) -> None:
    done = run("mcp", "check", *arguments)

    assert (done.exit_code, done.stdout) == (status, "")
    assert said in done.stderr


def test_a_server_that_ends_says_why_in_plain_letters(store: Path) -> None:
    program = "import sys; sys.stderr.write('no \\033[31mconfiguration'); sys.exit(3)"
    done = run("mcp", "check", "files", "--", sys.executable, "-S", "-c", program)

    assert done.exit_code == 1
    assert "the server has ended (exit status 3); it printed: no \\x1b[31mconfiguration" in done.stderr


def test_a_server_that_never_answers(store: Path) -> None:
    silent = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    done = run("mcp", "check", "files", "--seconds", "0.2", "--", *silent)

    assert done.exit_code == 1
    assert "no answer within 0.2 s; the last thing was that it was asked initialize" in done.stderr


def test_a_server_may_be_called_check() -> None:
    parent = click.Context(main)
    split_command(parent, ["mcp", "check", "--", "server"], {"mcp"})

    assert mcp_command.make_context("mcp", ["check"], parent).command is mcp_command
    assert mcp_command.make_context("mcp", ["check", "files"], parent).command is check_command


def test_what_a_server_says_steers_no_terminal_and_names_no_secret(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES_API_KEY", "hunter2-hunter2-hunter2")
    done = check([READ | {"description": "Read \x1b[2J with hunter2-hunter2-hunter2."}, LIST])

    assert done.exit_code == 4
    assert "\x1b" not in done.output
    assert "hunter2" not in done.output


def test_secrets_and_folders_in_a_description_are_no_change(store: Path) -> None:
    """The recording has neither. A page of an older list that nothing leads to is no part of the contract."""
    here = READ | {"description": f"Read what is below {store} with {SECRET}."}
    record_list(store, here, LIST)
    assert not any(
        SECRET.encode() in data or str(store).encode() in data for data in files_in(store).values()
    )

    same = check([here, LIST])

    assert (same.exit_code, same.stdout) == (0, "files (fake) offers what is recorded.\n"), same.stderr
