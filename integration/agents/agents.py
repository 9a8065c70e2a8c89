"""The five agents: how each is asked for one piece of work, without anybody at the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from integration.agents.script import FAILED, FILE, MORE, TEXT

__all__ = ["AGENTS", "Agent"]

_CODEX: Final = (
    "CODEX_API_KEY=$OPENAI_API_KEY codex exec --skip-git-repo-check"
    " --dangerously-bypass-approvals-and-sandbox -m gpt-5.5"
    ' -c openai_base_url="$OPENAI_BASE_URL" "Write a note"'
)
_GEMINI: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    # They stand in the prompt in the order in which a race ends, with the folder of the installation.
    "skills": {"enabled": False},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent, and what it needs to work alone."""

    program: str
    title: str
    command: tuple[str, ...]
    """What a user writes behind ``record --`` and ``replay --``."""
    variables: Mapping[str, str] = field(default_factory=dict)
    home: Mapping[str, str] = field(default_factory=dict)
    """Files that it finds in the home directory."""
    project: Mapping[str, str] = field(default_factory=dict)
    """Files of the project that it works on, beside its README."""
    labels: tuple[str, ...] = ()
    """What it prints before values of no known shape that are new in each run."""
    written: str = TEXT
    """What is in the note at the end."""

    def __str__(self) -> str:
        return self.program


AGENTS: Final = (
    Agent(
        program="claude",
        title="Claude Code",
        command=("claude", "-p", "--dangerously-skip-permissions", "Write a note"),
        # It refuses to skip questions for root, unless it is told that the machine is made for it.
        variables={"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    Agent(
        program="codex",
        title="Codex",
        command=("sh", "-c", _CODEX),
        labels=("Chunk ID: ", "Wall time: ", "Original token count: "),
    ),
    Agent(
        program="opencode",
        title="opencode",
        command=("opencode", "run", "-m", "anthropic/claude-sonnet-5", "Write a note"),
        variables={"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
    ),
    Agent(
        program="gemini",
        title="Gemini CLI",
        command=("gemini", "-m", "gemini-3.5-flash", "--yolo", "-p", "Write a note"),
        variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        home={".gemini/settings.json": json.dumps(_GEMINI)},
        labels=("Process Group PGID: ",),
    ),
    Agent(
        program="aider",
        title="aider",
        command=(
            *(
                "aider",
                "--model",
                "openai/gpt-5.2",
                "--edit-format",
                "diff",
                "--yes-always",
                "--analytics-disable",
            ),
            *("--no-check-update", "--no-show-release-notes", "--no-gitignore"),
            *("--auto-test", "--test-cmd", "sh check.sh", "--message", "Write a note"),
        ),
        project={
            "check.sh": f"tail -n 1 {FILE} | grep -q mended && exit\necho {FAILED}; pwd; date +%F; exit 1\n"
        },
        written=TEXT + MORE,
    ),
)
