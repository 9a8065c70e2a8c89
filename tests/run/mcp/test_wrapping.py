"""A command's MCP servers lead to us, by its arguments or its environment; its files stay as they are."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.errors import InvalidRequest
from cortex_replay.mcp.configurations import Server, Target
from cortex_replay.run.mcp.clients import find_client
from cortex_replay.run.mcp.wrapping import COPY_VARIABLE, Wrapping, wrap

SERVERS = {"files": {"command": "npx", "args": ["server-files", "."], "env": {"TOKEN": "${TOKEN}"}}}


def target_of(server: Server) -> Target:
    if server.kind == "stdio":
        return Target(("shim", server.label, "--", *server.command))
    return Target(url=f"http://gateway/mcp/{server.label}")


class Place:
    """A project and a home, and what comes of a command there."""

    def __init__(self, top: Path) -> None:
        self.home, self.cwd, self.scratch = (top / name for name in ("home", "project", "scratch"))
        for folder in (self.home, self.cwd, self.scratch):
            folder.mkdir()
        self.environment = {"HOME": str(self.home), "PATH": str(top / "bin")}

    def write(self, path: str, document: object) -> Path:
        file = self.cwd / path if not path.startswith("~/") else self.home / path[2:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return file

    def wrap(self, *command: str, named: Path | None = None) -> Wrapping:
        before = self.files()
        made = wrap(command, self.environment, self.cwd, self.scratch, target_of, named)
        assert self.files() == before, "nothing is written but to the private folder"
        return made

    def files(self) -> dict[Path, bytes]:
        found = [path for top in (self.home, self.cwd) for path in top.rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def table_in(word: str) -> dict[str, Any]:
    document = json.loads(Path(word.partition("=")[2]).read_text())
    table: dict[str, Any] = document["mcpServers"]
    return table


def names(made: Wrapping) -> list[str]:
    return sorted(server.name for server in made.servers)


# Claude Code


def test_claude_code_is_shown_a_copy_of_the_project_s_servers(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": SERVERS})

    made = place.wrap("claude", "-p", "hello")

    assert made.command[0] == "claude"
    assert made.command[2:] == ["-p", "hello"]
    pointed = {
        "command": "shim",
        "args": ["files", "--", "npx", "server-files", "."],
        "env": {"TOKEN": "${TOKEN}"},
    }
    assert table_in(made.command[1]) == {"files": pointed}
    assert (names(made), made.client) == (["files"], "Claude Code")
    assert (place.scratch / "mcp.json").stat().st_mode & 0o077 == 0


def test_claude_code_waits_for_its_servers(place: Place) -> None:
    """A recorded one is there at once: its tools are in the first prompt, as they must be when recorded."""
    place.write(".mcp.json", {"mcpServers": SERVERS})
    place.environment["MCP_CONNECT_TIMEOUT_MS"] = "7"

    made = place.wrap("claude", "-p", "hello")

    assert made.environment["MCP_CONNECTION_NONBLOCKING"] == "0"
    assert made.environment["MCP_CONNECT_TIMEOUT_MS"] == "7", "the user's own"


def test_without_servers_nothing_changes(place: Place) -> None:
    made = place.wrap("claude", "-p", "hello")

    assert (made.command, made.environment) == (["claude", "-p", "hello"], place.environment)
    assert [*place.scratch.iterdir()] == []


def test_all_scopes_of_claude_code_are_found_the_nearest_wins(place: Place) -> None:
    place.write("../.mcp.json", {"mcpServers": {"above": {"command": "a"}, "both": {"command": "far"}}})
    place.write(".mcp.json", {"mcpServers": {"both": {"command": "near"}}})
    local = {str(place.cwd): {"mcpServers": {"local": {"command": "l"}}}}
    own = {"mcpServers": {"user": {"command": "u"}, "both": {"command": "user"}}, "projects": local}
    place.write("~/.claude.json", own)

    made = place.wrap("claude", "-p", "hello")

    assert names(made) == ["above", "both", "local", "user"]
    assert table_in(made.command[1])["both"]["args"][-1] == "near"


@pytest.mark.parametrize("form", ["file", "equals", "inline"])
def test_the_agent_s_own_argument_is_followed(place: Place, form: str) -> None:
    document = {"mcpServers": {"files": {"command": "mine"}, "odd": {"type": "ws", "url": "ws://a"}}}
    file = place.write("other.json", document)
    given = {
        "file": ["--mcp-config", "other.json", str(file)],
        "equals": [f"--mcp-config={file}"],
        "inline": ["--mcp-config", json.dumps(document)],
    }[form]

    made = place.wrap("claude", "--model", "x", *given, "--strict-mcp-config", "-p", "hello")

    assert made.command[2:] == ["--model", "x", "--strict-mcp-config", "-p", "hello"]
    table = table_in(made.command[1])
    assert table["files"]["args"] == ["files", "--", "mine"]
    assert table["odd"] == document["mcpServers"]["odd"], "what cannot be wrapped is there as it was"
    assert made.left == {"odd": "is reached in a way that is not recorded"}


def test_strict_means_no_other_file(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": SERVERS})

    made = place.wrap("claude", "--strict-mcp-config", "-p", "hello")

    assert made.servers == ()


def test_a_server_that_claude_code_asks_about_is_not_slipped_past_it(place: Place) -> None:
    """Somebody sits there, and was not asked yet."""
    place.write(".mcp.json", {"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}})
    place.write(".claude/settings.json", {"enableAllProjectMcpServers": True})

    assert place.wrap("claude", "hello").left == dict.fromkeys("ab", "Claude Code asks about it first")

    trusted = {"hasTrustDialogAccepted": True, "disabledMcpjsonServers": ["b"]}
    place.write("~/.claude.json", {"projects": {str(place.cwd): trusted}})
    made = place.wrap("claude", "hello")

    assert (names(made), made.left) == (["a"], {"b": "Claude Code has it switched off"})


def test_a_script_slips_nothing_past_claude_code_either(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": SERVERS})

    assert place.wrap("sh", "-c", "claude hello").left == {"files": "Claude Code asks about it first"}
    assert names(place.wrap("sh", "-c", "claude -p hello")) == ["files"]


def test_what_is_switched_off_stays_so_without_questions(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": SERVERS})
    place.write(".claude/settings.local.json", {"disabledMcpjsonServers": ["files"]})

    assert place.wrap("claude", "-p", "hello").servers == ()


def test_no_link_of_a_repository_is_followed(place: Place) -> None:
    secret = place.write("~/elsewhere.json", {"mcpServers": SERVERS})
    (place.cwd / ".mcp.json").symlink_to(secret)

    made = place.wrap("claude", "-p", "hello")

    assert made.servers == ()
    (why,) = made.left.values()
    assert "cannot be read" in why


def test_a_pipe_in_the_place_of_a_file_does_not_stop_us(place: Place) -> None:
    os.mkfifo(place.cwd / ".mcp.json")

    assert place.wrap("claude", "-p", "hello").servers == ()


def test_what_the_user_wrapped_himself_is_left_alone(place: Place) -> None:
    own = {"command": "/venv/bin/cortex-replay", "args": ["mcp", "files", "--", "npx", "server-files"]}
    module = {
        "command": "python",
        "args": ["-m", "cortex_replay", "mcp", "files", "--", "npx", "server-files"],
    }
    place.write(".mcp.json", {"mcpServers": {"files": own, "more": module}})

    made = place.wrap("claude", "-p", "hello")

    assert (made.command, made.left) == (["claude", "-p", "hello"], {})
    assert made.environment["MCP_CONNECTION_NONBLOCKING"] == "0", "its tools are in the first prompt, too"


def test_two_names_that_become_one_are_not_mixed_up(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}}})

    made = place.wrap("claude", "-p", "hello")

    assert names(made) == ["a-b"], "what is recorded under a name belongs to whoever has it"
    assert made.left == {"a b": "another server is recorded under that name"}


def test_a_server_that_is_reached_leads_to_the_gateway_without_its_key(place: Place) -> None:
    remote = {"type": "http", "url": "https://a/mcp", "headers": {"Authorization": "Bearer abc"}}
    place.write(".mcp.json", {"mcpServers": {"remote": remote}})

    made = place.wrap("claude", "-p", "hello")

    assert table_in(made.command[1]) == {"remote": {"type": "http", "url": "http://gateway/mcp/remote"}}


def test_what_servers_want_and_do_not_get_is_known(place: Place) -> None:
    place.write(".mcp.json", {"mcpServers": SERVERS})

    assert place.wrap("claude", "-p", "hello").wanted(["TOKEN", "OTHER"]) == ["TOKEN"]


# opencode


def test_opencode_is_told_by_a_variable(place: Place) -> None:
    spec = {"type": "local", "command": ["npx", "{env:A}"], "environment": {"K": "v"}}
    place.write(
        "opencode.jsonc", "// mine\n" + json.dumps({"mcp": {"files": spec, "off": {"enabled": False}}})
    )
    place.write("~/.config/opencode/opencode.json", {"mcp": {"far": {"type": "remote", "url": "https://a"}}})
    place.environment["OPENCODE_CONFIG_CONTENT"] = '{"theme": "x", "mcp": {"in": {"command": ["i"]}}}'

    made = place.wrap("sh", "-c", "opencode run hello")

    assert made.command == ["sh", "-c", "opencode run hello"]
    told = json.loads(made.environment["OPENCODE_CONFIG_CONTENT"])
    assert told["theme"] == "x"
    assert told["mcp"]["files"] == {**spec, "command": ["shim", "files", "--", "npx", "{env:A}"]}
    assert told["mcp"]["far"] == {"type": "remote", "url": "http://gateway/mcp/far", "oauth": False}
    assert names(made) == ["far", "files", "in"]


def test_opencode_looks_as_far_as_the_top_of_the_repository(place: Place) -> None:
    place.write("opencode.json", {"mcp": {"out": {"command": ["o"]}}})
    for name in ("HEAD", "objects/x", "refs/x"):
        place.write(f"repo/.git/{name}", "")
    place.write("repo/opencode.json", {"mcp": {"top": {"command": ["t"], "environment": {"K": "v"}}}})
    place.write("repo/sub/.opencode/opencode.json", {"mcp": {"top": {"command": ["near"]}}})
    place.cwd = place.cwd / "repo" / "sub"

    made = place.wrap("opencode", "run", "hello")

    table = json.loads(made.environment["OPENCODE_CONFIG_CONTENT"])["mcp"]
    assert table == {
        "top": {"type": "local", "command": ["shim", "top", "--", "near"], "environment": {"K": "v"}}
    }


# Codex


def codex_table(words: Sequence[str]) -> dict[str, Any]:
    values = [word for before, word in pairwise(words) if before == "-c"]
    return tomllib.loads("\n".join(values))


def test_codex_is_told_by_settings_on_its_command_line(place: Place) -> None:
    place.write("~/.codex/config.toml", '[mcp_servers.files]\ncommand = "npx"\nargs = ["a"]\ncwd = "/gone"\n')

    made = place.wrap("codex", "exec", "hello")

    assert made.command[-2:] == ["exec", "hello"]
    shown = {"command": "shim", "args": ["files", "--", "npx", "a"], "cwd": str(place.cwd)}
    assert codex_table(made.command[1:-2]) == {"mcp_servers": {"files": shown}}


@pytest.mark.parametrize("is_trusted", [True, False])
def test_codex_s_project_counts_only_if_it_is_trusted(place: Place, is_trusted: bool) -> None:
    place.write(".codex/config.toml", '[mcp_servers.files]\ncommand = "npx"\n')
    level = "trusted" if is_trusted else "untrusted"
    place.write("~/.codex/config.toml", f'[projects."{place.cwd}"]\ntrust_level = "{level}"\n')

    assert names(place.wrap("codex", "exec", "hello")) == (["files"] if is_trusted else [])


def test_a_project_with_too_many_servers_for_codex_is_left_alone(place: Place) -> None:
    """Each file has as many as it may; both together have more."""
    own, theirs = ("".join(f'[mcp_servers.{of}{n}]\ncommand = "x"\n' for n in range(60)) for of in "ab")
    place.write("~/.codex/config.toml", f'{own}[projects."{place.cwd}"]\ntrust_level = "trusted"\n')
    place.write(".codex/config.toml", theirs)

    made = place.wrap("codex", "exec", "hello")

    assert len(made.servers) == 60
    assert [*made.left.values()] == ["it names more than 100 servers"]


def test_a_script_of_a_shell_finds_the_client_with_those_settings(place: Place) -> None:
    bin_folder = Path(place.environment["PATH"])
    bin_folder.mkdir()
    real = bin_folder / "codex"
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    place.environment["PATH"] += os.pathsep + os.defpath
    place.write("~/.codex/config.toml", '[mcp_servers.files]\ncommand = "npx"\n')

    made = place.wrap("sh", "-c", 'KEY=1 codex exec "a  b"')
    done = subprocess.run(made.command, env=made.environment, capture_output=True, text=True, check=True)

    *settings, verb, prompt = done.stdout.splitlines()
    assert (verb, prompt) == ("exec", "a  b")
    assert codex_table(settings) == {
        "mcp_servers": {"files": {"command": "shim", "args": ["files", "--", "npx"]}}
    }


# Others


def test_a_client_that_cannot_be_shown_others_is_named(place: Place) -> None:
    place.write(".gemini/settings.json", {"mcpServers": SERVERS})

    made = place.wrap("gemini", "-p", "hello")

    assert made.command == ["gemini", "-p", "hello"]
    (why,) = made.left.values()
    assert "put `cortex-replay mcp NAME --` before their commands" in why

    by_hand = {"command": "cortex-replay", "args": ["mcp", "files", "--", "npx", "server-files"]}
    place.write(".gemini/settings.json", {"mcpServers": {"files": by_hand}})
    assert place.wrap("gemini", "-p", "hello").left == {}


def test_any_command_gets_the_copy_of_a_file_that_is_named(place: Place) -> None:
    file = place.write("conf/servers.json", {"mcpServers": SERVERS, "more": 1})

    made = place.wrap("./agent", "--config=conf/servers.json", str(file), "servers.json", named=file)

    copy = made.environment[COPY_VARIABLE]
    assert made.command == ["./agent", f"--config={copy}", copy, "servers.json"]
    document = json.loads(Path(copy).read_text())
    assert document["more"] == 1
    assert document["mcpServers"]["files"]["args"][:2] == ["files", "--"]


def test_a_file_that_is_named_goes_to_a_client_in_its_own_words(place: Place) -> None:
    file = place.write("servers.json", {"mcpServers": {"files": {"command": "npx", "args": ["${WHERE}"]}}})
    place.environment["WHERE"] = "there"

    made = place.wrap("opencode", "run", "hello", named=file)

    table = json.loads(made.environment["OPENCODE_CONFIG_CONTENT"])["mcp"]
    assert table["files"]["command"] == ["shim", "files", "--", "npx", "there"]


@pytest.mark.parametrize("text", [None, "[]", "{"])
def test_a_file_that_is_named_and_is_none_is_an_error(place: Place, text: str | None) -> None:
    file = place.cwd / "servers.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(InvalidRequest, match=r"servers\.json"):
        place.wrap("./agent", named=file)


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (["claude"], "Claude Code"),
        (["/opt/bin/claude", "-p"], "Claude Code"),
        (["npx", "-y", "@anthropic-ai/claude-code@2.1.0", "-p"], "Claude Code"),
        (["env", "A=1", "codex", "exec"], "Codex"),
        (["timeout", "60", "opencode", "run"], "opencode"),
        (["bash", "-lc", "cd x && claude -p hi"], "Claude Code"),
        (["grep", "claude", "file"], None),
        (["npm", "run", "claude"], None),
        (["sh", "-c", "cat claude.md ./claude-x /x/codex"], None),
        (["sh", "claude"], None),
        ([], None),
    ],
)
def test_which_client_a_command_starts(command: list[str], title: str | None) -> None:
    found = find_client(command)

    assert (None if found is None else found[0].title) == title


def test_a_package_is_no_program() -> None:
    found = find_client(["npx", "-p", "@anthropic-ai/claude-code", "claude", "-p", "claude"])

    assert found is not None
    assert found[1] == 3
