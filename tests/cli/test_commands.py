"""The commands as a person or a program sees them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import cortex_replay
from cortex_replay import TokenUsage
from cortex_replay.cli.main import main
from cortex_replay.store.fixture import Answer, TimedChunk
from cortex_replay.types import StreamChunk, ToolCall
from tests.builder import MODEL, StoreBuilder, ask, fixture_of

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def spoil(builder: StoreBuilder) -> str:
    """Change a byte of the first fixture; gives its path."""
    path = next(iter(builder.files))
    (builder.root / path).write_bytes(builder.files[path].replace(b"One.", b"Two!"))
    return path


def test_verify_is_quiet_when_all_is_well(builder: StoreBuilder) -> None:
    """Nothing on stdout, nothing on stderr, exit 0."""
    result = run("verify", builder.root)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_verify_prints_every_finding_and_exits_5(builder: StoreBuilder) -> None:
    """Findings are the result, so they stand on stdout; the summary is talk."""
    spoiled = spoil(builder)
    (builder.root / "fixtures/x.json").write_bytes(b"{}")
    result = run("verify", builder.root)

    assert result.exit_code == 5
    assert f"{spoiled}: its bytes differ" in result.stdout
    assert "[unlisted]" in result.stdout
    assert "hint: " in result.stdout
    assert "2 findings" in result.stderr


def test_verify_for_programs(builder: StoreBuilder) -> None:
    """The whole report as one JSON object, good or bad."""
    good = json.loads(run("verify", builder.root, "--json").stdout)
    assert good["ok"]
    assert (good["fixtures"], good["findings"]) == (2, [])

    spoiled = spoil(builder)
    result = run("verify", "--json", "--store", builder.root)
    bad = json.loads(result.stdout)
    assert result.exit_code == 5
    assert not bad["ok"]
    assert ("mismatch", spoiled) == (bad["findings"][0]["code"], bad["findings"][0]["path"])


def test_the_store_can_be_named_everywhere(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an argument, after the command, before it, in the environment, or by standing there."""
    spoil(builder)
    ways: list[list[str | Path]] = [
        ["verify", builder.root],
        ["verify", "--store", builder.root],
        ["--store", builder.root, "verify"],
        ["--store", builder.root, "list"],
        ["list", "--store", builder.root],
    ]
    for arguments in ways:
        assert run(*arguments).exit_code == (5 if "verify" in arguments else 0)
    assert run("verify", builder.root, "--store", "elsewhere").exit_code == 2
    assert run("--store", "elsewhere", "verify", builder.root).exit_code == 2

    monkeypatch.setenv("CORTEX_REPLAY_STORE", str(builder.root))
    assert run("verify").exit_code == 5
    assert run("verify", "--store", ROOT).exit_code == 0
    assert run("--store", ROOT, "verify").exit_code == 0
    monkeypatch.delenv("CORTEX_REPLAY_STORE")
    monkeypatch.chdir(builder.root)
    assert run("verify").exit_code == 5


def test_verify_quick_looks_at_bytes_only(tmp_path: Path) -> None:
    """What the files say is left to the full check."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(b"{}", fixture_of(ask("q"), Answer("")).key)
    builder.write()

    assert run("verify", tmp_path).exit_code == 5
    assert run("verify", tmp_path, "--quick").exit_code == 0
    assert run("verify", tmp_path, "--quick", "--staged").exit_code == 2
    (tmp_path / next(iter(builder.files))).write_bytes(b"[]")
    assert run("verify", tmp_path, "--quick").exit_code == 5


def test_verify_strict_refuses_what_cannot_be_checked(tmp_path: Path) -> None:
    """A request with a secret cut out passes and is counted, or is refused when asked."""
    builder = StoreBuilder(tmp_path)
    fixture = fixture_of(ask("q"), Answer("a"), meta={"redactions": [{"kind": "value", "where": "request"}]})
    builder.add_fixture(fixture)
    builder.write()
    result = run("verify", tmp_path)

    assert result.exit_code == 0
    assert "1 stored request cannot be checked" in result.stderr
    assert run("verify", tmp_path, "--strict").exit_code == 5


@pytest.mark.parametrize("command", [["verify"], ["list"], ["show", "0"]])
def test_a_store_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    """No folder is a failure; a folder without an index fails integrity; both say what to do."""
    missing = run(*command, "--store", tmp_path / "nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.stderr

    empty = run(*command, "--store", tmp_path)
    assert empty.exit_code == 5
    assert "INDEX.toml" in empty.output
    assert "--store PATH" in empty.output


def test_errors_for_programs(tmp_path: Path) -> None:
    """With --json, an error is JSON on stderr and stdout stays empty."""
    result = run("list", "--json", "--store", tmp_path)
    error = json.loads(result.stderr)

    assert result.stdout == ""
    assert error["error"] == "FixtureIntegrityFailed"
    assert error["findings"][0]["code"] == "index-unreadable"


def test_list(builder: StoreBuilder) -> None:
    """Model, hash and file, a line each; or JSON; or those of some models."""
    builder.add_fixture(fixture_of(ask("q", model="other\x1b[31m"), Answer("a")))
    builder.write()
    result = run("list", "--store", builder.root)
    rows = json.loads(run("list", "--json", "--store", builder.root).stdout)

    assert 3 == len(result.stdout.splitlines()) == len(rows)
    assert {"model", "prompt_hash", "path", "blake3"} == set(rows[0])
    assert "\x1b" not in result.stdout
    assert all(row["prompt_hash"][:16] in result.stdout for row in rows)
    assert len(run("list", "--model", "test-*", "--store", builder.root).stdout.splitlines()) == 2
    assert run("list", "--model", "none", "--store", builder.root).stdout == ""


@pytest.fixture
def shown(tmp_path: Path) -> StoreBuilder:
    """A fixture with everything that can be shown, in texts that attack a terminal."""
    builder = StoreBuilder(tmp_path)
    request = ask(
        "",
        system="be \x1b]52;c;evil\x07 terse",
        messages=[
            {"role": "user", "content": "weather?", "parts": [{"type": "image"}]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "f", "arguments": {"a": 1}}],
            },
            {"role": "tool", "content": "::add-mask::x\n##[error]y", "tool_call_id": "c1", "is_error": True},
        ],
        seed=7,
    )
    answer = Answer(
        "\x9b31mred\u202eevil\r\nplain",
        usage=TokenUsage(1, 2, 3),
        finish_reason="stop",
        reasoning="hm",
        tool_calls=(ToolCall(name="g", arguments={}),),
        stream=(),
    )
    streamed = Answer("ab", stream=(TimedChunk(0, StreamChunk("a")), TimedChunk(7, StreamChunk("b", "stop"))))
    builder.add_fixture(
        fixture_of(request, answer, streamed, meta={"adapter": "claude", "recorded_at": "2026"})
    )
    builder.write()
    return builder


def test_show(shown: StoreBuilder) -> None:
    """Prompt, answers, usage, where from; nothing that steers a terminal or a CI log."""
    row = shown.fixtures[0]
    assert row.prompt_hash is not None
    result = run("show", row.prompt_hash[:8], "--store", shown.root)

    for part in (
        MODEL,
        row.prompt_hash,
        row.path,
        "claude",
        "terse",
        "weather?",
        "image",
        "call f (c1)",
        "tool (answers c1, an error)",
        "seed = 7",
        "answer 1 of 2",
        "answer 2 of 2",
        "reasoning",
        "call g",
        "cached tokens: 3",
        "2 chunks over 7 ms",
    ):
        assert part in result.stdout
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    assert not re.search(r"^\s*::", result.stdout, re.MULTILINE)
    assert "##[" not in result.stdout
    assert "\\x1b]52;c;evil\\x07" in result.stdout
    assert "\x9b31mred" in run("show", row.path, "--raw", "--store", shown.root).stdout


def test_nothing_that_a_fixture_says_can_start_a_line(tmp_path: Path) -> None:
    """Line feeds in names, ids, reasons and meta are spelled out, so that no CI runner takes a command."""
    builder = StoreBuilder(tmp_path)
    evil = "x\n::error::forged"
    request = ask(
        "",
        model=evil,
        messages=[{"role": "user", "content": ""}, {"role": "tool", "content": "", "tool_call_id": evil}],
    )
    builder.add_fixture(fixture_of(request, Answer("", finish_reason=evil), meta={evil: evil}))
    builder.write()
    row = builder.fixtures[0]
    for result in (run("list", "--store", tmp_path), run("show", row.path, "--store", tmp_path)):
        assert result.exit_code == 0
        assert "forged" in result.stdout
        assert not re.search("^::", result.stdout, re.MULTILINE)
    assert "\u202e" not in run("list", "--json", "--store", tmp_path).stdout


def test_show_for_programs_is_the_file_itself(shown: StoreBuilder) -> None:
    """Once it is trusted: the same values, and with --raw the same bytes."""
    row = shown.fixtures[0]
    result = run("show", row.path, "--json", "--store", shown.root)
    raw = run("show", row.path, "--json", "--raw", "--store", shown.root)

    assert json.loads(shown.files[row.path]) == json.loads(result.stdout)
    assert shown.files[row.path] == raw.stdout_bytes


def test_show_of_a_fixture_without_its_request(tmp_path: Path) -> None:
    """As crtx-llm writes it."""
    result = run(
        "show", "acb149", "--model", "other-model", "--store", ROOT / "tests/vectors/replay_fixtures"
    )

    assert result.exit_code == 0
    assert "does not hold its request" in result.stdout


def test_show_needs_exactly_one(builder: StoreBuilder) -> None:
    """None is exit 3, several is exit 2 with the choices."""
    none = run("show", "ffff", "--store", builder.root)
    assert none.exit_code == 3
    assert "no fixture fits ffff" in none.stderr

    several = run("show", "acb149", "--store", ROOT / "tests/vectors/replay_fixtures")
    assert several.exit_code == 2
    assert "other-model" in several.stderr
    assert run("show", "", "--store", builder.root).exit_code == 3


def test_show_refuses_a_spoiled_fixture(builder: StoreBuilder) -> None:
    """Nothing of it is printed."""
    path = spoil(builder)
    result = run("show", path, "--store", builder.root)

    assert result.exit_code == 5
    assert result.stdout == ""
    assert "mismatch" in result.stderr


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_help_ends_with_the_exit_statuses(command: str) -> None:
    """And has an example."""
    text = run(command, "--help").stdout

    assert "Examples:" in text
    assert re.search(r"Exit status:\n(  \d  .+\n)+$", text)


def test_the_group_s_help_has_examples_and_the_table_of_statuses() -> None:
    """And without a command, help is what is shown."""
    for arguments in (["--help"], []):
        text = run(*arguments).output
        assert "Examples:" in text
        assert "5 integrity" in text


def test_version_and_usage() -> None:
    """The usual."""
    assert f"cortex-replay, version {cortex_replay.__version__}\n" == run("--version").stdout
    assert run("nonsense").exit_code == 2
    assert run("verify", "--nonsense").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """Prints a script for each shell."""
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.skip("no bash")
    result = run("completion", shell)

    assert result.exit_code == 0
    assert "_CORTEX_REPLAY_COMPLETE" in result.stdout


def test_fixtures_are_completed(builder: StoreBuilder) -> None:
    """By the start of their hash; a broken store completes nothing and says nothing."""
    command = main.get_command(click.Context(main), "show")
    assert command is not None
    argument = next(p for p in command.params if p.name == "fixture")
    with click.Context(command) as ctx:
        ctx.params["store"] = builder.root
        found = argument.shell_complete(ctx, "")
        assert len(found) == 2
        spoil(builder)
        (builder.root / "INDEX.toml").unlink()
        assert argument.shell_complete(ctx, "") == []


def at_a_terminal(*arguments: str | Path, **environment: str) -> str:
    """What the real program prints when a terminal is there."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "cortex_replay", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=child, stderr=child, env=os.environ | environment)
    os.close(child)
    output = b""
    while True:
        try:
            block = os.read(parent, 4096)
        except OSError:  # how a pty says that the other end is gone
            break
        output += block
        if not block:
            break
    process.wait(30)
    os.close(parent)
    return output.decode()


def test_colour_only_at_a_terminal_and_not_with_no_color(builder: StoreBuilder) -> None:
    """NO_COLOR means no escape sequence at all."""
    spoil(builder)

    assert "\x1b[" in at_a_terminal("verify", builder.root, TERM="xterm")
    assert "\x1b[" not in at_a_terminal("verify", builder.root, TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in run("verify", builder.root).output


def test_a_person_is_told_that_all_is_well(builder: StoreBuilder) -> None:
    """At a terminal only."""
    assert "ok: 2 files" in at_a_terminal("verify", builder.root)


def test_long_work_shows_a_bar(tmp_path: Path) -> None:
    """At a terminal, for thousands of files."""
    builder = StoreBuilder(tmp_path)
    for i in range(2100):
        builder.add(f"{i}", "a")
    builder.write()

    assert "verifying" in at_a_terminal("verify", tmp_path, TERM="xterm")
    assert run("verify", tmp_path).output == ""


def at_a_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m cortex_replay"
    return subprocess.run(
        ["bash", "-c", command.replace("cortex-replay", program)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def test_a_reader_that_stops_early_does_not_change_the_verdict(builder: StoreBuilder) -> None:
    """``verify | head`` still says 5."""
    spoil(builder)
    done = at_a_shell(f"set -o pipefail; cortex-replay verify {builder.root} | true")

    assert done.returncode == 5
    assert "Traceback" not in done.stderr


def test_streams_that_are_closed_full_or_narrow(builder: StoreBuilder) -> None:
    """No traceback, and the right status."""
    builder.add_fixture(fixture_of(ask("漢字"), Answer("漢字")))
    builder.write()
    path = builder.fixtures[-1].path
    assert at_a_shell(f"cortex-replay verify {builder.root} 2>&-").returncode == 0
    assert at_a_shell(f"cortex-replay list --store {builder.root} 2>&-").returncode == 0
    full = at_a_shell(f"cortex-replay list --store {builder.root} > /dev/full")
    assert full.returncode == 1
    assert "error: " in full.stderr
    assert "Traceback" not in full.stderr
    narrow = at_a_shell(f"cortex-replay show {path} --store {builder.root}", PYTHONIOENCODING="latin-1")
    assert narrow.returncode == 0
    assert "\\u6f22" in narrow.stdout


def test_a_locale_that_cannot_spell_a_name(tmp_path: Path) -> None:
    """Is told, not shown as a traceback."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(b"{}", fixture_of(ask("q"), Answer("")).key, "fixtures/é.json")
    builder.write()
    done = at_a_shell(f"cortex-replay verify {tmp_path}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert done.returncode == 5
    assert "Traceback" not in done.stderr


def test_a_reader_that_stops_early_is_no_error(builder: StoreBuilder) -> None:
    """``cortex-replay list | head`` prints no traceback."""
    command = f"{sys.executable} -m cortex_replay list --store {builder.root} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert done.stderr == ""
