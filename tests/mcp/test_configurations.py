"""Configurations of clients: read as they are written, rewritten without loss."""

from __future__ import annotations

import json
import tomllib

import pytest

from cortex_replay.mcp.configurations import (
    MOST_BYTES,
    BadConfiguration,
    Dialect,
    Target,
    merge,
    parse,
    toml_words,
    variables_in,
)

SHIM = Target(("cortex-replay", "mcp", "files", "--", "npx", "server"))
GATE = Target(url="http://127.0.0.1:1/mcp/files")


def test_comments_and_last_commas_are_no_error() -> None:
    text = b"""\xef\xbb\xbf{
      // a comment, "quoted"
      "mcpServers": { /* another // one */
        "files": {"command": "npx", "args": ["//not a comment", "a,]", "/* nor this */",],},
      },
    }"""

    (server,) = parse(text).servers.values()

    assert server.command == ("npx", "//not a comment", "a,]", "/* nor this */")


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        ({"mcpServers": {"files": {"command": "npx", "args": ["server"]}}}, Dialect.COMMON),
        ({"servers": {"files": {"type": "stdio", "command": "npx", "args": ["server"]}}}, Dialect.VSCODE),
        ({"mcp": {"files": {"type": "local", "command": ["npx", "server"]}}}, Dialect.OPENCODE),
    ],
)
def test_each_client_is_read_in_its_own_words(document: dict[str, object], dialect: Dialect) -> None:
    read = parse(json.dumps(document).encode())

    assert read.dialect is dialect
    assert read.servers["files"].command == ("npx", "server")
    again = parse(json.dumps(read.rewrite({"files": SHIM})).encode())
    assert again.servers["files"].command == SHIM.words
    assert again.servers["files"].is_stand_in


def test_what_is_said_beside_a_server_stays() -> None:
    spec = {"command": "npx", "args": ["server"], "env": {"A": "${A}"}, "cwd": "x", "autoApprove": ["read"]}
    read = parse(json.dumps({"other": 1, "mcpServers": {"files": spec, "more": {"command": "b"}}}).encode())

    made = read.rewrite({"files": SHIM})

    pointed = {**spec, "command": SHIM.words[0], "args": list(SHIM.words[1:])}
    assert made == {"other": 1, "mcpServers": {"files": pointed, "more": {"command": "b"}}}
    assert read.document["mcpServers"]["files"] == spec


@pytest.mark.parametrize(
    ("spec", "kind", "pointed"),
    [
        ({"url": "https://a/mcp"}, "http", {"url": GATE.url}),
        ({"type": "http", "url": "https://a"}, "http", {"type": "http", "url": GATE.url}),
        ({"type": "sse", "url": "https://a/sse"}, "sse", {"type": "sse", "url": GATE.url}),
        ({"httpUrl": "https://a"}, "http", {"httpUrl": GATE.url}),
        ({"serverUrl": "https://a", "timeout": 5}, "http", {"serverUrl": GATE.url, "timeout": 5}),
    ],
)
def test_a_server_that_is_reached_keeps_its_headers_to_us(
    spec: dict[str, object], kind: str, pointed: dict[str, object]
) -> None:
    keyed = {**spec, "headers": {"Authorization": "Bearer abc"}}
    server = parse(json.dumps({"mcpServers": {"files": keyed}}).encode()).servers["files"]

    assert server.kind == kind
    assert server.headers == {"Authorization": "Bearer abc"}
    assert server.point_at(GATE) == pointed


def test_variables_are_filled_in_as_clients_do() -> None:
    spec = {
        "command": "${BIN}",
        "args": ["${GONE}", "${GONE:-here}", "${env:BIN}", "$BIN"],
        "env": {"K": "${KEY}"},
    }
    server = parse(json.dumps({"mcpServers": {"a": spec}}).encode()).servers["a"]

    filled = server.expand({"BIN": "npx", "KEY": "x"})

    assert filled.command == ("npx", "${GONE}", "here", "npx", "$BIN")
    assert filled.environment == {"K": "x"}
    assert variables_in(server) == ["BIN", "GONE", "KEY"]


def test_opencode_fills_in_nothing_for_what_is_not_there() -> None:
    spec = {"type": "remote", "url": "https://a/{env:GONE}", "headers": {"X": "{env:KEY}"}}
    server = parse(json.dumps({"mcp": {"a": spec}}).encode()).servers["a"].expand({"KEY": "x"})

    assert (server.url, server.headers) == ("https://a/", {"X": "x"})


def test_secrets_are_named_wherever_they_stand() -> None:
    secrets = [f"s3cr3t-Zq8vN2xK7mW{n}" for n in range(4)]
    started: dict[str, object] = {
        "command": "npx",
        "args": ["--api-key", secrets[0], f"--token={secrets[1]}"],
    }
    started |= {"env": {"GITHUB_TOKEN": secrets[2], "HOME": "/home/x"}}
    reached = {"url": "https://a/mcp", "headers": {"Authorization": f"Bearer {secrets[3]}"}}
    read = parse(json.dumps({"mcpServers": {"a": started, "b": reached}}).encode())

    assert [secret for server in read.servers.values() for secret in server.secrets()] == [
        secrets[2],
        secrets[0],
        secrets[1],
        secrets[3],
    ]
    assert not any(secret in repr(read) for secret in secrets[2:])


@pytest.mark.parametrize(
    "spec",
    [
        "npx",
        {},
        {"command": 5},
        {"command": "a", "args": "b"},
        {"command": "a", "args": [1]},
        {"command": "a\0b"},
        {"command": "a", "env": ["B=1"]},
        {"command": "a", "env": {"B": {}}},
        {"url": 5},
        {"url": "https://a", "type": "ws"},
        {"command": "a", "args": ["${input:key}"]},
        {"url": "https://a", "headers": {"K": "{file:key.txt}"}},
    ],
)
def test_what_cannot_be_wrapped_is_said_and_harms_no_other(spec: object) -> None:
    read = parse(json.dumps({"mcpServers": {"bad": spec, "good": {"command": "npx"}}}).encode())

    assert [*read.servers] == ["good"]
    assert read.unusable["bad"]


def test_servers_that_are_switched_off_are_none() -> None:
    table = {"a": {"command": "x", "disabled": True}, "b": {"command": "x", "enabled": False}}
    read = parse(json.dumps({"mcpServers": table}).encode())

    assert (read.servers, read.unusable) == ({}, {})


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("files", "files"),
        ("my files", "my-files"),
        ("../../etc", "etc"),
        ("a/b?c#d", "a-b-c-d"),
        ("x" * 99, "x" * 64),
    ],
)
def test_names_are_safe_in_paths_and_addresses(name: str, label: str) -> None:
    assert parse(json.dumps({"mcpServers": {name: {"command": "x"}}}).encode()).servers[name].label == label


def test_a_name_of_nothing_that_can_be_said_is_none() -> None:
    assert parse(b'{"mcpServers": {"\xf0\x9f\xa6\x8a": {"command": "x"}}}').servers == {}


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{",
        b"\xff",
        b'{"mcpServers": []}',
        b'{"mcpServers": ' + b"[" * 5000,
        b"/*" * 200_000,
        b'"' * 200_001,
        b" " * (MOST_BYTES + 1),
        json.dumps({"mcpServers": {str(n): {} for n in range(101)}}).encode(),
    ],
)
def test_a_hostile_file_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(BadConfiguration):
        parse(data)


@pytest.mark.parametrize("data", [b"a = " + b"1" * 5000, b"a." * 50_000 + b"a = 1", b"a = " + b"[" * 5000])
def test_a_hostile_file_of_codex_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(BadConfiguration):
        parse(data, Dialect.CODEX)


@pytest.mark.parametrize("opened", ["${A:-", "${input:", "{file:"])
def test_what_is_opened_again_and_again_takes_no_time(opened: str) -> None:
    """With the square of its length, this would take hours."""
    many = opened * 1_000_000
    server = parse(json.dumps({"mcpServers": {"a": {"command": many}}}).encode()).servers["a"]

    assert variables_in(server) == []
    assert server.expand({"A": "x"}).command == (many,)


def test_codex_is_read_from_toml_and_told_by_words() -> None:
    read = parse(b'[mcp_servers.a]\ncommand = "x"\nargs = ["y"]\nenv = {K = "v"}\n', Dialect.CODEX)
    assert read.servers["a"].command == ("x", "y")

    words = [*toml_words("a", {"command": 'x "q" \\ \x7f\n', "args": ["ä", "🦊"]})]

    assert words[::2] == ["-c", "-c"]
    assert tomllib.loads("\n".join(words[1::2])) == {
        "mcp_servers": {"a": {"command": 'x "q" \\ \x7f\n', "args": ["ä", "🦊"]}}
    }


def test_documents_are_merged_table_by_table() -> None:
    low = {"mcp": {"a": {"command": ["x", "y"], "environment": {"K": "1"}}}, "b": 1}
    high = {"mcp": {"a": {"command": ["z"]}, "c": {}}}

    merged = merge(low, high)

    assert merged == {"mcp": {"a": {"command": ["z"], "environment": {"K": "1"}}, "c": {}}, "b": 1}
    assert low["mcp"] == {"a": {"command": ["x", "y"], "environment": {"K": "1"}}}


def test_a_server_can_be_said_in_another_client_s_words() -> None:
    read = parse(b'{"mcpServers": {"a": {"command": "x", "args": ["${K}"], "env": {"E": "${K}"}}}}')

    (server,) = read.translate(Dialect.OPENCODE, {"K": "v"}).servers.values()

    assert server.spec == {"type": "local", "command": ["x", "v"], "environment": {"E": "v"}}
