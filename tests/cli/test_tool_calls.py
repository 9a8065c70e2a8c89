"""What the commands for stores make of recorded MCP calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cortex_replay import Store
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange
from tests.cli.commands import run
from tests.store.branches import Branches


def call(tool: str, text: str, server: str = "every", asked_at: str = "2026-01-02T03:04:05.678Z") -> Exchange:
    question = question_of(server, "tools/call", {"name": tool, "arguments": {"text": text}})
    result = {"content": [{"type": "text", "text": f"it said\n{text}"}]}
    wire: dict[str, Any] = {"messages": [{"at_ms": 1, "result": result}], "meta": {"asked_at": asked_at}}
    return Exchange(wire, key=opaque_key(question), request=question)


def add(root: Path, *calls: Exchange, scope: str = "") -> None:
    store = Store.open_or_create(root)
    for one in calls:
        store.add_exchange(one, scope=scope, overwrite=True)
    store.commit()


def names(root: Path) -> list[str]:
    return sorted(path.name[:-31] for path in root.glob("fixtures/exchanges/mcp/*/*.json"))


def test_calls_go_by_server_and_tool(tmp_path: Path) -> None:
    add(tmp_path, call("read_file", "a", "files"), call("write_file", "a", "files"), call("read_file", "b"))

    dry = run("prune", "--store", tmp_path, "--server", "fil*", "--tool", "read_*", "--dry-run")
    assert len(names(tmp_path)) == 3
    real = run("prune", "--store", tmp_path, "--server", "fil*", "--tool", "read_*")

    assert (dry.exit_code, real.exit_code, dry.stdout) == (0, 0, real.stdout)
    assert real.stdout.startswith("remove  fixtures/exchanges/mcp/files/tools-call-read_file-")
    assert "1 call (" in real.stderr
    assert "2 stay" in real.stderr
    assert names(tmp_path) == ["tools-call-read_file", "tools-call-write_file"]


def test_calls_go_by_age_and_scope_too(tmp_path: Path) -> None:
    add(tmp_path, call("old", "a"), call("young", "a", asked_at="2999-01-01T00:00:00.000Z"))
    add(tmp_path, call("old", "a"), scope="mine")
    add(tmp_path, call("old", "a"), call("other", "a"), scope="theirs")

    plan = json.loads(run("prune", "--store", tmp_path, "--tool", "o*", "--scope", "their*", "--json").stdout)
    rest = json.loads(
        run("prune", "--store", tmp_path, "--server", "*", "--older-than", "1w", "--json").stdout
    )

    assert {item["scope"] for item in plan["removed"]} <= {"theirs"}
    assert all(item["what"] != "tool young of server every" for item in rest["removed"])
    assert names(tmp_path) == ["tools-call-young"]


def test_calls_and_models_are_not_mixed_up(tmp_path: Path) -> None:
    add(tmp_path, call("x", "a"))

    assert run("prune", "--store", tmp_path, "--server", "every", "--model", "m").exit_code == 2


def with_error(one: Exchange, message: str) -> Exchange:
    """The same call, answered with an error."""
    wire: dict[str, Any] = {"messages": [{"at_ms": 1, "error": {"code": 1, "message": message}}]}
    return Exchange(wire, key=one.key, request=one.request)


def commit(branches: Branches) -> None:
    branches.git("add", "-A")
    branches.git("commit", "-q", "-m", "calls")


def test_a_review_says_what_was_called(tmp_path: Path) -> None:
    branches = Branches(tmp_path / "store", 1)
    root = branches.root
    add(root, call("echo", "hello"), call("gone", "x"))
    commit(branches)
    add(root, call("sum", "1 and 2"), with_error(call("echo", "hello"), "no\x1b[31m"))
    run("prune", "--store", root, "--tool", "gone")

    result = run("verify", "--store", root, "--base", "HEAD")

    assert result.exit_code == 0
    assert 'added    "tool sum of server every {"text":"1 and 2"}"' in result.stdout
    assert 'changed  "tool echo of server every {"text":"hello"}"' in result.stdout
    assert 'was "it said hello"' in result.stdout
    assert 'now "error: no\\x1b[31m"' in result.stdout
    assert "\x1b[31m" not in result.stdout


def test_a_tool_that_two_branches_recorded_is_resolved(tmp_path: Path) -> None:
    branches = Branches(tmp_path / "store", 1)
    for name, message in (("theirs", "their error"), ("ours", "our error")):
        branches.git("checkout", "-q", "-b", name, "main")
        add(branches.root, with_error(call("echo", "hello"), message), call(f"of {name}", "x"))
        commit(branches)
    assert not branches.merge()

    result = run("resolve", "--store", branches.root, "--theirs")

    assert result.exit_code == 0, result.output
    store = Store.open(branches.root)
    kept = store.exchange(str(call("echo", "hello").key))
    assert len(store.exchange_keys()) == 3
    assert kept is not None
    assert "their error" in json.dumps(kept.wire)


def test_tools_are_not_asked_again_and_refresh_says_why(tmp_path: Path) -> None:
    add(tmp_path, call("echo", "hello"))

    result = run("refresh", "--store", tmp_path)

    assert "not asked: 1 call to MCP servers: a tool may do something each time." in result.stderr


def test_an_export_for_crtx_leaves_them_out_and_says_so(tmp_path: Path) -> None:
    add(tmp_path / "store", call("echo", "hello"))

    result = run("export", "--store", tmp_path / "store", "--crtx", tmp_path / "out")

    assert result.exit_code == 0
    assert "calls to MCP servers: 1 (" in result.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["INDEX.toml"]


def test_an_index_is_made_of_their_files_again(tmp_path: Path) -> None:
    add(tmp_path, call("echo", "hello"), call("sum", "1"))
    before = (tmp_path / "INDEX.toml").read_bytes()
    (tmp_path / "INDEX.toml").unlink()

    assert run("index", "--store", tmp_path).exit_code == 0
    assert (tmp_path / "INDEX.toml").read_bytes() == before
    assert run("verify", "--store", tmp_path, "--strict").exit_code == 0


def test_a_secret_that_got_into_one_is_found(tmp_path: Path) -> None:
    add(tmp_path, call("echo", "gh" + "p_" + "4aBcD5eFgH6iJkL7mNoP8qRsT9uVwX0yZ1a2"))

    result = run("scan", "--store", tmp_path)

    assert result.exit_code == 1
    assert "wire.messages[0].result.content[0].text" in result.output


def test_rekey_leaves_them_alone(tmp_path: Path) -> None:
    """No rule applies to them."""
    uuid = "0b7c1a4e-5d3f-4c55-9d5e-000000000001"
    add(tmp_path, call("get", uuid))
    (tmp_path / "cortex-replay.toml").write_text('[normalisers]\nid = "0b7c[0-9a-f-]+"\n')
    before = (tmp_path / "INDEX.toml").read_bytes()

    assert run("rekey", "--store", tmp_path).exit_code == 0
    assert (tmp_path / "INDEX.toml").read_bytes() == before
