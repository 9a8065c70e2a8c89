"""git, as whoever has installed it has it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

__all__ = ["NAMES", "git", "git_version"]

NAMES: Final = ("-c", "user.name=proof", "-c", "user.email=proof@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run it in a folder; its status says how it went."""
    return subprocess.run(["git", *NAMES, *words], cwd=folder, capture_output=True, check=False)


def git_version() -> str:
    """Its name and version."""
    said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout
    return said.strip().replace("git version", "git")
