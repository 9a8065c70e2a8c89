"""The story of a run at the command line: ``show``, ``list``, ``explain``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest

from cortex_replay.canonical import exchange_bytes
from cortex_replay.cli import command_report
from cortex_replay.cli.story import story_lines
from cortex_replay.hashing import blake3_hex
from cortex_replay.history.calls import read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.story import tell_story
from cortex_replay.modes import Mode
from cortex_replay.store import FixtureKey, Store
from tests.builder import StoreBuilder
from tests.cli.commands import run
from tests.engine.mcp import scenario
from tests.engine.mcp.harness import Client, run_at


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("story")
    asyncio.run(scenario.record(made))
    return made


def lines_of(*arguments: str | Path) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def json_of(*arguments: str | Path) -> Any:
    return json.loads("\n".join(lines_of(*arguments, "--json")))


def test_the_story_of_the_latest_run(root: Path) -> None:
    store = Store.open(root)
    first, sampled, last = [call.prompt_hash[:12] for call in read_calls(store).calls]
    key = next(call.key[:12] for call in read_mcp_calls(store) if call.tool)
    lines = lines_of("show", "latest", "--store", root)

    assert lines[0].endswith("3 model calls, 2 calls to MCP servers")
    assert [line[12:] if line[:10].strip() else line.strip() for line in lines[1:]] == [
        "files    initialize",
        "result: fs 1",
        f"model 1  agent-model {first}  What does a.txt say, in short?",
        f'calls mcp__files__read_short(path="a.txt") → files {key}',
        "its result is in the prompt of model 3",
        "calls todo_write(items=[])",
        'files    read_short(path="a.txt")  ← model 1',
        "progress 1 of 2",
        "asks the client sampling/createMessage: Sum up: hello world",
        "the client answers request 1: a greeting",
        "result: a greeting",
        f"model 2  agent-model {sampled}  Sum up: hello world",
        'asked for files, by request 1 of read_short(path="a.txt")',
        "says a greeting",
        f"model 3  agent-model {last}  What does a.txt say, in short? (+2 messages)",
        "says It says: a greeting",
    ]


def test_a_run_whose_tools_said_what_they_had_said_before(tmp_path: Path) -> None:
    """Their recordings stay as they are, and are of the earlier run; what they say is told all the same."""
    first = asyncio.run(scenario.record(tmp_path)).name
    again = asyncio.run(scenario.record(tmp_path, "And now?")).name
    lines = [line.strip() for line in lines_of("show", again, "--store", tmp_path)]
    at = next(n for n, line in enumerate(lines) if line.startswith("calls mcp__files__read_short"))

    assert {call.run for call in read_mcp_calls(Store.open(tmp_path))} == {first}
    assert lines[0].endswith("2 model calls, 0 calls to MCP servers")
    assert lines[at].endswith("(an equal call)")
    assert lines[at + 1 : at + 3] == ["result: a greeting", "its result is in the prompt of model 2"]
    asked = next(call for call in read_calls(Store.open(tmp_path)).calls if call.run == again)
    rows = json_of("list", "--store", tmp_path, "--cause", asked.prompt_hash)
    assert [row["tool"] for row in rows] == ["read_short"]


def test_a_run_is_named_as_elsewhere(root: Path) -> None:
    name = read_calls(Store.open(root)).calls[0].run
    told = json_of("show", "latest", "--store", root)

    assert told["runs"] == [name]
    assert json_of("show", name[:12], "--store", root) == told
    assert json_of("show", "--run", name, "--store", root) == told
    unknown = run("show", "--run", "nobody", "--store", root)
    assert (unknown.exit_code, "no run and no test is called 'nobody'" in unknown.stderr) == (3, True)
    assert run("show", "--store", root).exit_code == 2
    assert run("show", "latest", "--run", "latest", "--store", root).exit_code == 2


def test_one_call_with_all_its_messages(root: Path) -> None:
    call = next(call for call in read_mcp_calls(Store.open(root)) if call.tool)
    assert call.cause is not None
    by_key, by_path = (lines_of("show", name, "--store", root) for name in (call.key[:10], call.path))

    assert by_key == by_path
    assert (
        f"caused by     agent-model {call.cause.prompt_hash[:16]}, answer 1, tool call 1 (call_1)" in by_key
    )
    assert [line.partition("ms  ")[2] for line in by_key if " ms  " in line] == [
        "notification notifications/progress",
        "request sampling/createMessage",
        "answer to request 1",
        "result",
    ]
    assert json_of("show", call.key, "--store", root)["wire"]["meta"]["cause"]["id"] == "call_1"


def test_calls_are_listed_and_filtered(root: Path) -> None:
    calls = read_mcp_calls(Store.open(root))
    read, handshake = sorted(calls, key=lambda call: call.method, reverse=True)
    assert read.cause is not None

    def keys(*filters: str) -> set[str]:
        return {row["key"] for row in json_of("list", "--store", root, *filters)}

    assert keys("--server", "fi*") == {read.key, handshake.key}
    assert keys("--tool", "read_*") == {read.key}
    assert keys("--cause", read.cause.prompt_hash[:8]) == {read.key}
    assert keys("--cause", "f" * 8) == keys("--server", "other") == keys("--tool", "write") == set()
    assert len(lines_of("list", "--store", root)) == 5
    assert f'{read.key[:12]}  mcp files    read_short(path="a.txt")' in lines_of("list", "--store", root)
    assert len(lines_of("list", "--store", root, "--run", "latest")) == 5
    assert len(lines_of("list", "--store", root, "--model", "*")) == 3
    assert run("list", "--store", root, "--run", "nobody").exit_code == 3


def test_programs_that_read_the_list_find_what_they_know(root: Path) -> None:
    rows, both = json_of("list", "--store", root), json_of("list", "--store", root, "--mcp")

    assert {"model", "prompt_hash", "path", "blake3", "scope", "question"} == set(rows[0])
    assert both[:3] == rows
    assert [(row["server"], row["tool"], row["answers"]) for row in both[3:]] == [
        (row["server"], row["tool"], 1) for row in sorted(both[3:], key=lambda row: row["path"])
    ]


def test_explain_says_what_tool_calls_led_to(root: Path) -> None:
    first, _, last = read_calls(Store.open(root)).calls
    told = lines_of("explain", first.prompt_hash, "--store", root)
    called = json_of("explain", first.prompt_hash, "--store", root)["tool_calls"]

    assert told[-4] == "Tool calls of its answers"
    assert told[-3].endswith(": result: a greeting")
    assert told[-2:] == [
        f"    its result is in the prompt {last.prompt_hash[:12]}",
        "  todo_write(items=[])",
    ]
    assert [call["result_in"] for call in called] == [
        {"prompt_hash": last.prompt_hash, "path": last.path},
        None,
    ]


def test_a_hostile_recording_steers_no_terminal(tmp_path: Path) -> None:
    """What servers and models wrote is spelled out, on one line, without what looks like a secret."""
    builder = StoreBuilder(tmp_path)
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    body = {"name": "t\x1b[31m", "arguments": {"a": f"\n::error::x {secret}"}}
    messages = [
        {"at_ms": 0, "notification": {"method": "notifications/\x9b31m", "params": {"_meta": 1, "x": "\r"}}},
        {"at_ms": 0, "request": {"method": "\u202e", "params": [1]}},
        {"at_ms": 0, "answer": {"to": 1, "error": {"message": "\x07", "code": None}}},
        {
            "at_ms": 0,
            "result": {"content": ["\x1b]52;c;evil\x07", {"type": "text", "text": f"{secret}\n\n"}]},
        },
    ]
    meta = {"run": "\x1b", "asked_at": "0001-01-01T00:00:00+23:59", "call": "x", "cause": {"model": 1}}
    request = {"upstream": "mcp:s\x1b", "method": "MCP", "path": "tools/call", "query": [], "body": body}
    document = {"request": request, "wire": {"messages": messages, "meta": meta}}
    key = blake3_hex(exchange_bytes("mcp:s\x1b", "MCP", "tools/call", [], body))  # type: ignore[arg-type]
    builder.add_exchange(json.dumps(document).encode(), "x.json", key=key)
    builder.write()

    for arguments in (["show", "all"], ["show", key], ["list"], ["list", "--mcp", "--json"]):
        result = run(*arguments, "--store", tmp_path)
        assert result.exit_code == 0, result.output
        assert secret not in result.output
        assert not {"\x1b", "\x9b", "\x07", "\r", "\u202e"} & set(result.output)
        assert not any(line.startswith("::") for line in result.output.splitlines())


def test_a_damaged_call_hides_no_other(tmp_path: Path) -> None:
    asyncio.run(scenario.record(tmp_path))
    call = next(call for call in read_mcp_calls(Store.open(tmp_path)) if call.tool)
    (tmp_path / call.path).write_bytes(b"{}")
    listed = run("list", "--store", tmp_path)

    assert (listed.exit_code, len(listed.stdout.splitlines())) == (5, 5)
    assert "(its file is not what the index says)" in listed.stdout
    assert run("show", "latest", "--store", tmp_path).exit_code == 5


def replayed(root: Path, *, plays: bool = True) -> Any:
    replaying = run_at(root, Mode.REPLAY)
    if plays:
        asyncio.run(scenario.play(replaying, scenario.server()))
    return replaying


def test_a_run_tells_of_servers_apart(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replaying = replayed(root)
    replaying.ledger.remark("files: 1 frame that is no message\x1b[31m")
    replaying.ledger.remark("files: 1 frame that is no message\x1b[31m")
    command_report.tell_run(replaying)
    said = capsys.readouterr().err

    assert r"note: files: 1 frame that is no message\x1b[31m (2 times)" in said
    assert "cortex-replay: MCP server files: 2 hits\n" in said
    assert "cortex-replay: 5 hits, 0 misses" in said
    assert "unused:" not in said
    assert command_report.verdict(replaying.ledger, replaying.store, ["miss", "live", "unused"]) == 0


def test_calls_that_nobody_makes_are_named_and_fail_a_run(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replaying = replayed(root, plays=False)
    for stored in replaying.store.list():
        replaying.ledger.hit(FixtureKey(stored.model, stored.prompt_hash))
    status = command_report.verdict(replaying.ledger, replaying.store, ["unused"])

    assert status == 4
    said = capsys.readouterr().err
    assert 'files read_short(path="a.txt")' in said
    assert "error: some recordings are not used any more" in said


def test_a_run_that_asks_only_tools_has_made_calls(tmp_path: Path) -> None:
    recording = run_at(tmp_path, Mode.RECORD)

    async def call() -> None:
        client = Client(recording, scenario.server(), "files")
        await client.ask("initialize", {}, id=1)
        await client.session.close()

    asyncio.run(call())

    assert command_report.verdict(recording.ledger, recording.store, ["miss"]) == 0
    assert command_report.verdict(recording.ledger, recording.store, ["live"]) == 4


def test_the_summary_of_a_job_has_a_row_for_each_server(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    command_report.summarise(replayed(root), 0)
    written = (tmp_path / "summary.md").read_text()

    assert "| MCP server files | 2 hits |" in written
    assert "| unused calls to MCP servers | 0 |" in written


def test_a_report_lets_prune_remove_calls_that_nobody_makes(tmp_path: Path) -> None:
    """With several reports, those that none has used."""
    asyncio.run(scenario.record(tmp_path / "llm"))
    store = tmp_path / "llm"
    nothing = replayed(store, plays=False)
    everything = replayed(store)
    files = [tmp_path / "nothing.json", tmp_path / "everything.json"]
    for file, used in zip(files, (nothing, everything), strict=True):
        file.write_text(json.dumps(used.ledger.to_dict(used.store)))

    kept = run("prune", "--store", store, "--unused-from", files[0], "--unused-from", files[1])
    assert (kept.exit_code, "0 fixtures (0 bytes) removed, 5 stay" in kept.stderr) == (0, True)
    some = run("prune", "--store", store, "--unused-from", files[0], "--tool", "read_*")
    assert "1 call (" in some.stderr
    gone = run("prune", "--store", store, "--unused-from", files[0])
    assert "3 fixtures and 1 call to MCP servers (" in gone.stderr
    assert lines_of("list", "--store", store) == []


@pytest.mark.parametrize("calls", [7, [{"scope": "x"}], ["k"]])
def test_a_report_whose_calls_are_none_is_refused(tmp_path: Path, calls: Any) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"unused": [], "unused_calls": calls}))

    assert run("prune", "--store", tmp_path, "--unused-from", report).exit_code == 2


def test_a_narrow_terminal_still_shows_what_caused_what(root: Path) -> None:
    store = Store.open(root)
    story = tell_story(read_calls(store).calls, read_mcp_calls(store))
    lines = [click.unstyle(line) for line in story_lines(story, 66)]

    assert max(map(len, lines)) == 66
    assert len([line for line in lines if "→ files" in line or line.endswith("← model 1")]) == 2
