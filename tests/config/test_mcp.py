"""What becomes of calls to MCP servers, by name and by tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config import McpSettings
from cortex_replay.errors import ConfigError, InvalidRequest
from tests.config.conftest import Project

FILES = """
[mcp.files]
tools = { "read_secret" = "refuse", "read_*" = "live" }

[mcp.payments]
policy = "refuse"
"""


def test_the_first_pattern_that_fits_counts(project: Project) -> None:
    project.write(FILES)

    files = project.load().settings.mcp["files"]

    assert files.policy_of("read_secret") == "refuse"
    assert files.policy_of("read_file") == "live"
    assert files.policy_of("READ_file") == "replay"
    assert files.policy_of(None) == "replay"
    assert project.load().settings.mcp["payments"].policy_of("pay") == "refuse"


def test_where_a_policy_comes_from(project: Project) -> None:
    project.write(FILES)

    origins = project.load().origins

    assert origins["mcp.files.tools"] == "cortex-replay.toml"
    assert origins["mcp.files.policy"] == "default"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[mcp.files]\npolicy = 'lvie'", "mcp.files.policy: expected replay, live or refuse; did you mean"),
        ("[mcp.files]\ntools = ['read_*']", "mcp.files.tools: expected a table"),
        ("[mcp.files.tools]\nread = 'no'", "mcp.files.tools.read: expected replay"),
        ("[mcp.files]\ntool = {}", "mcp.files.tool: there is no such setting; did you mean tools"),
        ("[mcp.files.tools]\nread = 'sk-ant-0123456789abcdef0123'", "a key does not belong"),
        ("mcp = 3", "mcp: expected a table"),
    ],
)
def test_what_cannot_be(project: Project, text: str, problem: str) -> None:
    project.write(text)

    with pytest.raises(ConfigError) as caught:
        project.load()

    assert problem in str(caught.value)


def test_what_the_user_refuses_stays_refused(project: Project, tmp_path: Path) -> None:
    """A project's file may be a stranger's."""
    own = tmp_path / "home/cortex-replay/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        "[mcp.files.tools]\n'write_*' = 'refuse'\n'list_*' = 'live'\n[mcp.payments]\npolicy = 'refuse'"
    )
    own.chmod(0o600)
    project.write(
        "[mcp.files.tools]\n'*_file' = 'live'\n'write_*' = 'live'\n[mcp.payments]\npolicy = 'live'\n"
        "tools = { '*' = 'live' }"
    )

    mcp = project.load(environment={"XDG_CONFIG_HOME": str(tmp_path / "home")}).settings.mcp

    assert mcp["files"].policy_of("write_file") == "refuse"
    assert mcp["files"].policy_of("read_file") == "live"
    assert mcp["files"].policy_of("list_all") == "live"
    assert mcp["payments"].policy_of("pay") == "refuse"


def test_a_project_alone_keeps_the_order_of_its_patterns(project: Project) -> None:
    project.write("[mcp.files.tools]\nread_file = 'live'\n'*' = 'refuse'")

    assert project.load().settings.mcp["files"].policy_of("read_file") == "live"


def test_settings_are_checked_when_made() -> None:
    with pytest.raises(InvalidRequest, match="expected replay, live or refuse"):
        McpSettings(policy="never")  # type: ignore[arg-type]
