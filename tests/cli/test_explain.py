"""``cortex-replay explain`` as a person or a program sees it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cortex_replay import LlmRequest, RecordingAdapter, Store, TokenUsage
from cortex_replay.cli.main import main
from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.store.fixture import Answer
from cortex_replay.testing import EchoAdapter
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import record_tool
from tests.history.recordings import Recording, record, record_list


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["explain", *(str(argument) for argument in arguments)])


def asked(rules: str) -> LlmRequest:
    blocks = [PromptBlock.cached_long("rules", rules), PromptBlock.plain("today", "Monday.")]
    return to_request(
        blocks, wire="anthropic-messages", model="m", messages="Where\x1b[2J is it?", max_tokens=9
    )


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, list[str]]:
    """Two prompts, recorded with their plans, and their hashes."""
    requests = [asked("r " * 2048 + f"\nIt is {time}.\n") for time in ("09:15:02", "09:15:07")]

    async def record() -> None:
        async with RecordingAdapter(EchoAdapter(), tmp_path, mode="record") as adapter:
            for request in requests:
                await adapter.complete(request)

    asyncio.run(record())
    return tmp_path, [request.prompt_hash() for request in requests]


def test_a_recording_notes_its_breakpoints(recorded: tuple[Path, list[str]]) -> None:
    """They are no part of the key, nor of the stored request."""
    root, hashes = recorded
    meta = Store.open(root).get("m", hashes[0]).meta

    assert meta is not None
    assert meta["cache"] == {
        "markers": [{"at": "system", "number": 1, "ttl": "1h"}],
        "blocks": [{"end": 4113, "label": "rules"}, {"end": 4122, "label": "today"}],
    }


def test_one_prompt_in_its_parts(recorded: tuple[Path, list[str]]) -> None:
    root, hashes = recorded
    result = run(hashes[0][:20], "--store", root)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["m", hashes[0][:16]]
    table = [line.split() for line in lines if line.startswith(("block", "turn"))]
    assert [row[:2] for row in table] == [["block", "'rules'"], ["block", "'today'"], ["turn", "1"]]
    assert ["1h" in row for row in table] == [True, False, False]
    assert "up to the breakpoint behind block 'rules' (1h)" in result.stdout
    assert re.search(r"openai +2,048 tokens", result.stdout)


def test_two_prompts_and_where_they_part(recorded: tuple[Path, list[str]]) -> None:
    root, hashes = recorded
    result = run(*hashes, "--store", root)

    assert result.exit_code == 0
    assert "| -It is 09:15:02." in result.stdout
    assert "| +It is 09:15:07." in result.stdout
    assert "What changed looks like a time." in result.stdout
    assert "ends in or before block 'rules'" in result.stdout
    assert re.search(r"anthropic +0 tokens +block 'rules' changed", result.stdout)
    assert "\x1b" not in result.stdout


def test_an_edit_of_a_part_has_its_price(recorded: tuple[Path, list[str]], tmp_path: Path) -> None:
    root, hashes = recorded
    one, two = run(hashes[0], "--store", root), run(*hashes, "--store", root)

    assert re.search(r"block 'rules' .* 1h +3,8\d\d +3,8\d\d,\d00$", one.stdout, re.MULTILINE)
    assert "What an edit costs is in input tokens: what was cached from there on is paid again." in one.stdout
    assert re.search(r"After this edit of block 'rules', 2,\d+ cached tokens are paid again\.", two.stdout)
    assert "input tokens per thousand calls." in two.stdout
    assert not re.search(r"turn 1 \(user\).*00$", one.stdout, re.MULTILINE), "nothing is cached behind it"


def test_with_prices_an_edit_costs_money(
    recorded: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not configured follows from the price of input, and the output says so."""
    root, hashes = recorded
    monkeypatch.chdir(tmp_path)
    settings = 'currency = "EUR"\n[prices.m]\ninput = 3\noutput = 15\n'
    (tmp_path / "cortex-replay.toml").write_text(settings)
    one, two = run(hashes[0], "--store", root), run(*hashes, "--store", root)
    value: Any = json.loads(run(*hashes, "--store", root, "--json").stdout)

    assert "What an edit costs is in EUR" in one.stdout
    assert "The prices of cached, cache_write_5m and cache_write_1h are not configured" in one.stdout
    assert re.search(r"that costs 0\.01\d\d EUR per call, 11\.\d+ EUR per thousand calls\.", two.stdout)
    edit = value["comparison"]["edit"]
    assert (edit["block"], edit["per_call"]["unit"]) == ("block 'rules'", "money")
    assert float(edit["per_thousand"]["amount"]) == pytest.approx(1000 * float(edit["per_call"]["amount"]))
    assert [part["edit"] is not None for part in value["first"]["parts"]] == [True, False, False]
    (tmp_path / "cortex-replay.toml").write_text(
        settings + "cached = 0.3\ncache_write_5m = 3.75\ncache_write_1h = 6\n"
    )
    assert "not configured" not in run(hashes[0], "--store", root).stdout


def test_a_recording_from_before_its_breakpoints_were_noted(tmp_path: Path) -> None:
    """It says that the provider read from its cache, but not from where on."""
    builder = StoreBuilder(tmp_path)
    request = replace(ask("Hello."), model="claude-sonnet-4-5")
    builder.add_fixture(fixture_of(request, Answer("Hi.", usage=TokenUsage(5000, 2, 4000, 600))))
    builder.write()

    assert (
        "Where its breakpoints stood was not recorded."
        in run(request.prompt_hash(), "--store", tmp_path).stdout
    )


def test_for_programs(recorded: tuple[Path, list[str]]) -> None:
    root, hashes = recorded
    one: Any = json.loads(run(hashes[0], "--store", root, "--json").stdout)
    two: Any = json.loads(run(*hashes, "--store", root, "--json").stdout)

    assert one["prompt_hash"] == hashes[0]
    assert one["tokens"] == one["parts"][-1]["up_to_here"]
    assert [part["breakpoint"] for part in one["parts"]] == ["1h", "none", "none"]
    assert [entry["provider"] for entry in one["cached"]] == ["anthropic", "openai", "gemini", "llamacpp"]
    assert two["first"] == one
    assert two["comparison"]["first_change"] == "block 'rules'"
    assert two["comparison"]["looks_like"] == "a time"


def test_the_provider_s_count_is_used_and_its_cache_reported(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    request = ask("Hello.")
    builder.add_fixture(fixture_of(request, Answer("Hi.", usage=TokenUsage(5000, 2, 4000, 600))))
    builder.write()
    result = run(request.prompt_hash()[:9], "--store", tmp_path)

    assert "5,000 tokens by the provider's count" in result.stdout
    assert "read 4,000 tokens from the cache and wrote 600" in result.stdout


def test_the_count_of_a_whole_conversation_is_not_that_of_two_words(tmp_path: Path) -> None:
    """The provider held the rest, and no part of it stands here."""
    request = LlmRequest("gpt-5.1", "Be kind.", "So?", extra={"previous_response_id": "resp_0"})
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(fixture_of(request, Answer("Yes.", usage=TokenUsage(2722, 2, 2688))))
    builder.write()

    text = run(request.prompt_hash()[:8], "--store", tmp_path).output

    assert "About 3 tokens, estimated" in text
    assert "It goes on from what the provider held" in text
    assert "read 2,688 tokens from the cache" in text


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    request = ask("Hello.")
    builder.add_fixture(replace(fixture_of(request, Answer("Hi.")), request=None))
    builder.write()

    bare = run(request.prompt_hash(), "--store", tmp_path)
    assert (bare.exit_code, "does not hold its request" in bare.stderr) == (1, True)
    assert run("00ff", "--store", tmp_path).exit_code == 3
    assert run("a", "b", "c", "--store", tmp_path).exit_code == 2
    assert run("--store", tmp_path).exit_code == 2


def test_a_tool_of_mcp_that_its_server_describes_otherwise_by_now(tmp_path: Path) -> None:
    read = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
    offered = {"name": "mcp__files__read", "description": "Read a file.", "input_schema": {"type": "object"}}
    rules = {"rules": "Be brief, whatever you are asked. " * 400}
    store = record(tmp_path / "s", Recording(0, rules, fields={"tools": [offered]}, markers=[("system", 1)]))
    [stored] = store.list()

    record_list(tmp_path / "s", read)
    same = run("--store", tmp_path / "s", stored.prompt_hash[:12]).stdout
    record_list(tmp_path / "s", read | {"description": "Read a page."})
    changed = run("--store", tmp_path / "s", stored.prompt_hash[:12]).stdout
    told = run("--store", tmp_path / "s", stored.prompt_hash[:12], "--json").stdout

    assert "describe otherwise" not in same
    assert '  read of files: "Read a file." became "Read a page."' in changed
    assert "After this edit of tool 'mcp__files__read', about 3," in changed
    [edit] = json.loads(told)["tool_edits"]
    assert (edit["server"], edit["tool"]) == ("files", "read")
    assert edit["cost"]["tokens"] > 3000


def test_a_call_of_a_tool_is_no_prompt(tmp_path: Path) -> None:
    record_tool(tmp_path)
    path = Store.open(tmp_path).list_exchanges()[0].path

    result = run(path, "--store", tmp_path)

    assert result.exit_code == 3
    assert f"is a call to an MCP server, and no prompt: cortex-replay show {path}" in result.stderr
