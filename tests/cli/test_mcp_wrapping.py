"""The MCP servers of a command are wrapped for each run of it, and the run says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.cli.mcp_wrapping import mcp_words, wrap_servers
from cortex_replay.engine.http.relay import GATEWAY_VARIABLE
from cortex_replay.run import Run
from cortex_replay.run.mcp.wrapping import COPY_VARIABLE
from tests.builder import StoreBuilder
from tests.cli.commands import run as run_cli

pytestmark = pytest.mark.usefixtures("in_a_folder")

SECRET = "s3cr3t-Zq8vN2xK7mW"
KEY = "k3y-Pf5tR9wB1cJ"
SERVERS = {
    "files": {
        "command": "npx",
        "args": ["server"],
        "env": {"FILES_TOKEN": SECRET, "MORE": "${GITHUB_TOKEN}"},
    },
    "far": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
    "older": {"type": "sse", "url": "https://mcp.example.com/sse"},
    "odd": {"type": "ws", "url": "wss://mcp.example.com"},
    "bad": {"url": "ftp://mcp.example.com"},
}


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": SERVERS}))
    return file


def wrapped(
    run: Run, servers: Path, capsys: pytest.CaptureFixture[str], **flags: Any
) -> tuple[Mapping[str, Any], str]:
    """The table that a command would read, and what is said."""
    environment = {GATEWAY_VARIABLE: "http://127.0.0.1:9/", "KEY": KEY}
    given = {"mcp_config": servers, **flags}
    with wrap_servers(run, ["./agent"], environment, given, withheld=["GITHUB_TOKEN"]) as made:
        copy = made.environment.get(COPY_VARIABLE)
        table = {} if copy is None else json.loads(Path(copy).read_text())["mcpServers"]
    assert copy is None or not Path(copy).exists(), "it is gone with the run"
    return table, capsys.readouterr().err


def test_servers_lead_to_the_run(tmp_path: Path, servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.open(mode="once", store=tmp_path / "llm")

    table, talk = wrapped(run, servers, capsys)

    words = [table["files"]["command"], *table["files"]["args"]]
    assert words[-4:] == ["files", "--", "npx", "server"]
    assert words[-5] == "mcp"
    assert table["far"] == {"url": "http://127.0.0.1:9/mcp/far"}
    assert table["older"] == {"type": "sse", "url": "http://127.0.0.1:9/mcp/older/sse"}
    assert (table["odd"], table["bad"]) == (SERVERS["odd"], SERVERS["bad"])
    assert sorted(run.desk().http.names) == ["far", "older"]
    assert talk == (
        "cortex-replay (servers.json): 3 MCP servers wrapped: files, far, older; not wrapped: "
        "odd (is reached in a way that is not recorded); bad (its URL is none that can be reached)\n"
        "note: MCP servers want GITHUB_TOKEN, which is withheld (--pass-env GITHUB_TOKEN hands it over)\n"
    )


def test_names_that_a_stranger_chose_are_short_and_plain_on_the_terminal(
    tmp_path: Path, servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(mode="once", store=tmp_path / "llm")
    long = "a\x1b[31m" + "b" * 10**6
    servers.write_text(json.dumps({"mcpServers": {long: {"command": "x"}, f"!{long}": {}}}))

    _, talk = wrapped(run, servers, capsys)

    assert len(talk) < 500
    assert "\x1b" not in talk


def test_secrets_of_a_configuration_are_never_stored(
    tmp_path: Path, servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(mode="once", store=tmp_path / "llm")
    assert SECRET in run.redactor.text(f"it is {SECRET}")[0], "nothing else gives it away"

    wrapped(run, servers, capsys)

    for secret in (SECRET, KEY):
        assert secret not in run.redactor.text(f"it is {secret}")[0]


def test_a_replay_wants_no_variable(
    builder: StoreBuilder, servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(mode="replay", store=builder.write())

    assert "note:" not in wrapped(run, servers, capsys)[1]


def test_servers_can_be_left_alone(tmp_path: Path, servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.open(mode="once", store=tmp_path / "llm")

    assert wrapped(run, servers, capsys, no_mcp=True) == ({}, "")


@pytest.mark.parametrize("verb", ["record", "replay", "learn", "sweep"])
def test_every_command_that_runs_one_wraps_its_servers(
    verb: str, builder: StoreBuilder, tmp_path: Path, servers: Path
) -> None:
    program = f"import os, shutil; shutil.copy(os.environ['{COPY_VARIABLE}'], 'seen.json')"
    options = ["--no-key"] if verb == "record" else []
    words = [verb, "--store", str(builder.write()), *options, "--mcp-config", str(servers)]

    done = run_cli(*words, "--", sys.executable, "-c", program)

    assert "3 MCP servers wrapped: files, far, older" in done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())["mcpServers"]
    assert seen["files"]["args"][-4:] == ["files", "--", "npx", "server"]


def test_a_file_that_is_none_is_said_before_the_command_runs(builder: StoreBuilder, tmp_path: Path) -> None:
    done = run_cli(
        *("replay", "--store", str(builder.write()), "--mcp-config", "none.json"),
        *("--", sys.executable, "-c", "open('ran', 'w')"),
    )

    assert done.exit_code == 2
    assert "none.json" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_options_for_servers_go_with_a_command() -> None:
    done = run_cli(
        "record", "--mcp-config", "x.json", "--prompt", "hi", "--provider", "scripted", "--model", "m"
    )

    assert done.exit_code == 2
    assert "--mcp-config" in done.stderr


def test_a_command_to_be_pasted_says_the_same_of_servers() -> None:
    assert mcp_words({"mcp_config": Path("a.json"), "no_mcp": False}) == ["--mcp-config", "a.json"]
    assert mcp_words({"mcp_config": None, "no_mcp": True}) == ["--no-mcp"]
    assert mcp_words({}) == []


def test_a_token_that_is_not_there_leaves_no_blank_behind(
    tmp_path: Path, servers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    far = {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${GONE:-}"}}
    servers.write_text(json.dumps({"mcpServers": {"far": far}}))
    run = Run.open(mode="once", store=tmp_path / "llm")
    added: list[Any] = []
    monkeypatch.setattr(run.desk(), "add_server", lambda *given: added.append(given))

    wrapped(run, servers, capsys)

    assert added == [("far", far["url"], {"Authorization": "Bearer"}, "http")]
