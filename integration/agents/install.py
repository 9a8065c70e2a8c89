"""Coding agents as their makers publish them, each installed once below ``.bench/agents``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from integration import install

__all__ = ["VERSIONS", "elsewhere", "program"]

VERSIONS: Final = {
    "claude": "@anthropic-ai/claude-code@2.1.325",
    "codex": "@openai/codex@0.166.0",
    "opencode": "opencode-ai@1.18.33",
    "gemini": "@google/gemini-cli@0.61.0",
    "aider": "aider-chat==0.86.2",
}
"""Agents by the name of their program: what to ask npm or pip for."""

_SCRIPTS: Final = {"claude": "install.cjs", "opencode": "postinstall.mjs"}
"""What puts a program in its place; npm runs it only when asked, each version of npm in another way."""


def program(agent: str) -> Path:
    """The program of one of :data:`VERSIONS`, installed."""
    wanted = VERSIONS[agent]
    folder = install.BENCH / "agents" / wanted.rpartition("/")[2]
    if "==" in wanted:
        install.once(folder, lambda made: _install_python(made, wanted))
        return folder / "bin" / agent
    install.once(folder, lambda made: _install_node(made, agent))
    return folder / "node_modules" / ".bin" / agent


def elsewhere() -> Path:
    """The program that runs a command on another day, built."""
    compiler = install.needed("cc", "build what changes the date")
    source = Path(__file__).with_name("elsewhere.c")
    made = install.BENCH / "agents" / "elsewhere"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        install.completed([compiler, "-O2", "-Wall", "-Wextra", "-o", made, source])
    return made


def _install_python(folder: Path, package: str) -> None:
    install.completed([sys.executable, "-m", "venv", folder])
    python = folder / "bin" / "python"
    install.completed([python, "-m", "pip", "install", "--disable-pip-version-check", package])


def _install_node(folder: Path, agent: str) -> None:
    node = install.needed("node", f"run {agent}")
    npm = install.needed("npm", f"install {agent}")
    (folder / "package.json").write_text("{}")  # else npm looks for one above
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
    install.completed([npm, "install", "--prefix", folder, *options, VERSIONS[agent]])
    if agent in _SCRIPTS:
        package = folder / "node_modules" / VERSIONS[agent].rpartition("@")[0]
        install.completed(["env", "--chdir", os.fspath(package), node, _SCRIPTS[agent]])
