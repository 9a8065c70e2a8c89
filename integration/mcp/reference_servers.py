"""The reference MCP servers, as npm has them, in a folder that can be taken away again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from integration import install

__all__ = ["VERSION", "copy_servers", "entry_of", "reference_servers"]

VERSION: Final = "2026.8.31"
_NAMES: Final = ("everything", "filesystem", "memory")


def reference_servers() -> Path:
    """The folder in which they are installed, once."""
    return install.once(install.BENCH / "mcp" / f"servers@{VERSION}", _install)


def copy_servers(folder: Path) -> Path:
    """A copy of the installation, to be deleted."""
    shutil.copytree(reference_servers(), folder, symlinks=True, copy_function=os.link)
    return folder


def entry_of(folder: Path, name: str) -> Path:
    """The program of a server in an installation."""
    return folder / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"


def _install(folder: Path) -> None:
    npm = install.needed("npm", "install MCP servers")
    install.needed("node", "run MCP servers")
    (folder / "package.json").write_text("{}")  # else npm looks for one above
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
    packages = [f"@modelcontextprotocol/server-{name}@{VERSION}" for name in _NAMES]
    install.completed([npm, "install", "--prefix", folder, *options, *packages])
