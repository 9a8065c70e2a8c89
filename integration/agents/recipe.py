"""The recipes of ``docs/agents.md``, followed to the letter by somebody with an empty home."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from integration.agents import install
from integration.agents.agents import Agent
from integration.agents.machine import leading_to, write_file

__all__ = ["PAGE", "follow", "recipe_of"]

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "agents.md"
_SECONDS: Final = 300
_BLOCK: Final = re.compile(r"```(sh|json)\n(.*?)```", re.DOTALL)


def recipe_of(agent: Agent) -> str:
    """What the page says of an agent."""
    text = PAGE.read_text("utf-8")
    return text.partition(f"\n## {agent.title}\n")[2].partition("\n## ")[0]


def follow(agent: Agent, folder: Path, upstream: str) -> subprocess.CompletedProcess[str]:
    """Run the commands of a recipe, in order, until one fails. The agent is installed already."""
    blocks = dict(_BLOCK.findall(recipe_of(agent)))
    start = PAGE.read_text("utf-8").partition("\n## Before you start\n")[2]
    before = _BLOCK.search(start)
    assert before is not None
    lines = [line for line in blocks["sh"].splitlines() if not line.startswith(("npm ", "pip "))]
    home, here = folder / "home", folder / "here"
    for name in agent.home:
        write_file(home / name, blocks["json"])
    write_file(home / ".gitconfig", "[user]\nname = Newcomer Example\nemail = newcomer@example.com\n")
    for name, text in {"README.md": "# A project\n", **agent.project}.items():
        write_file(home / "my-project" / name, text)
    here.mkdir()
    programs = [install.program(agent.program).parent, Path(sys.executable).parent]
    kept = {"PATH": os.pathsep.join([*map(os.fspath, programs), os.environ["PATH"]]), "LANG": "C.UTF-8"}
    # Tests may run as root, where Claude Code wants more than the recipe says for everybody.
    root = {"HOME": os.fspath(home), "IS_SANDBOX": "1"}
    return subprocess.run(
        ["bash", "-ec", before[2] + "\n".join(lines)],
        cwd=here,
        env=kept | root | leading_to(upstream),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
