"""What servers are called if the user has not named them."""

from __future__ import annotations

import shlex

import pytest

from cortex_replay.mcp.names import configured_name, server_behind_shim, server_name, server_name_of_url


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-everything@2026.8.31", "server-everything"),
        ("npx -y -- plain@latest", "plain"),
        ("npx -p @a/b@1 b-bin --port 1", "b-bin"),
        ("npx --package=@a/b@1 b-bin", "b-bin"),
        (r"'C:\Program Files\nodejs\npx.cmd' -y plain", "plain"),
        ("cmd /c npx -y plain", "plain"),
        ("npm exec -y -- @a/b@2", "b"),
        ("pnpm dlx plain@latest", "plain"),
        ("bunx plain@1", "plain"),
        ("uvx mcp-server-git --repository /x", "mcp-server-git"),
        ("uvx --python 3.12 --with other mcp-server-git==1.0", "mcp-server-git"),
        ("uvx --from git+https://github.com/o/serena@v1 serena start", "serena"),
        ("uvx git+https://github.com/o/serena.git@v1", "serena"),
        ("uv tool run mcp-server-fetch[all]>=1", "mcp-server-fetch"),
        ("uv --directory /x run server.py", "server"),
        ("uv run --with mcp mcp run tools/weather.py:app", "weather"),
        ("uv run -m shop.server", "shop.server"),
        ("pipx run --spec mcp-x==1 mcp-x", "mcp-x"),
        ("python /abs/server.py", "server"),
        ("/usr/bin/python3.12 -u -X dev ./tools/weather_server.py --key abc", "weather_server"),
        ("python -m pkg.server", "pkg.server"),
        ("python -m mcp run a.py", "a"),
        ("python3.13 -c 'import x'", "python"),
        ("node /x/node_modules/@modelcontextprotocol/server-memory/dist/index.js stdio", "server-memory"),
        ("node --import tsx build/weather.js", "weather"),
        ("deno run -A npm:@a/b@1", "b"),
        ("deno run --allow-net ./srv.ts", "srv"),
        (
            "docker run -i --rm -e KEY --mount type=bind,src=/a,dst=/b ghcr.io/o/some-server:1.2",
            "some-server",
        ),
        ("docker run -it image:tag arg", "image"),
        ("docker run -i --rm mcp/fetch@sha256:0123 --x", "fetch"),
        ("podman run --rm -i --name one reg.example:5000/team/tool:1", "tool"),
        ("go run github.com/a/b/cmd/foo@v1.2", "foo"),
        ("cargo run --bin abc", "abc"),
        ("java -jar /x/tool-1.2.3.jar", "tool"),
        ("env A=1 B=2 npx -y plain", "plain"),
        ("bash -lc 'A=1 exec npx -y plain@1'", "plain"),
        ("/opt/bin/my-server --token secret", "my-server"),
        ("cortex-replay mcp files -- npx x", "files"),
        ("", "server"),
    ],
)
def test_a_command_gives_a_name_that_is_the_same_elsewhere(command: str, name: str) -> None:
    """No folder, version, interpreter, runner or argument is in it."""
    assert server_name(shlex.split(command)) == name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.example.com/mcp", "mcp.example.com"),
        ("https://MCP.example.com:8443/s/secret-token/sse?key=secret", "mcp.example.com"),
        ("http://user:pass@mcp.example.com/mcp", "mcp.example.com"),
        ("http://127.0.0.1:40123/mcp", "localhost"),
        ("http://[::1]:1/mcp", "localhost"),
        ("https://[nonsense", "server"),
    ],
)
def test_a_url_gives_its_host(url: str, name: str) -> None:
    """A port may be chance, and a path, a query or a user may be secret."""
    assert server_name_of_url(url) == name


@pytest.mark.parametrize(
    ("name", "configured", "expected"),
    [
        ("mcp-server-git", ["git", "files"], "git"),
        ("server-filesystem", ["filesystem"], "filesystem"),
        ("git", ["mcp-server-git", "git"], "git"),
        ("mcp-server-git", ["git", "git-mcp"], "mcp-server-git"),
        ("server", ["mcp"], "server"),
        ("other", ["git"], "other"),
    ],
)
def test_a_configured_name_is_preferred(name: str, configured: list[str], expected: str) -> None:
    """But only if it is plain which one is meant."""
    assert configured_name(name, configured) == expected


@pytest.mark.parametrize(
    "command",
    [
        "cortex-replay mcp --mode record files -- npx x -- y",
        "/venv/bin/python -m cortex_replay mcp --store=. files -- npx x -- y",
        "cortex-replay mcp files --mode once -- npx x -- y",
        "/venv/bin/python -I /venv/lib/cortex_replay/__main__.py mcp --scope a files -- npx x -- y",
    ],
)
def test_a_server_behind_the_shim_is_found(command: str) -> None:
    """It has a name already, and its own command is behind the dashes."""
    assert server_behind_shim(command.split()) == ("files", ["npx", "x", "--", "y"])


@pytest.mark.parametrize(
    "command", ["npx x", "cortex-replay serve", "cortex-replay mcp check", "cortex-replay mcp x --", ""]
)
def test_other_commands_are_no_shim(command: str) -> None:
    assert server_behind_shim(command.split()) is None
