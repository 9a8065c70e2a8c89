"""Programs that use the SDKs of providers as they are, installed once below ``.bench/clients``.

Each takes addresses and keys from the environment and the model from ``CLIENT_MODEL``, prints a
line of JSON per step, and ends with 0 if all steps went well. Arguments, each an API (``anthropic``,
``openai-chat``, ``openai-responses``, ``ollama``) or a step of one (``ollama.plain``), choose some.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from integration import install
from integration.agents.install import program

__all__ = [
    "GO_APIS",
    "NODE_CLIENTS",
    "PYTHON_CLIENTS",
    "gemini_cli",
    "gemini_client",
    "gemini_python",
    "go_client",
    "node_client",
    "python_client",
]

PYTHON_CLIENTS: Final = ("anthropic", "openai", "ollama", "pydantic_ai", "langchain")
NODE_CLIENTS: Final = ("anthropic", "openai", "ollama", "ai")
GO_APIS: Final = ("anthropic", "openai-chat", "openai-responses", "ollama")

_HERE: Final = Path(__file__).resolve().parent
_GO_PROGRAM: Final = "clients.exe" if os.name == "nt" else "clients"
_PACKAGES: Final = (
    "anthropic==2.8.0",
    "openai==3.49.0",
    "ollama==0.6.3",
    "pydantic-ai-slim[anthropic,openai]==2.62.0",
    "langchain-anthropic==1.7.7",
    "langchain-openai==1.7.3",
    "langchain-ollama==1.1.0",
)
_GEMINI_PACKAGES: Final = (
    "google-genai==2.34.0",
    "pydantic-ai-slim[google]==2.66.0",
    "langchain-google-genai==4.4.2",
    "litellm==1.106.2",
    "mcp",
    "anthropic[vertex]==2.8.0",
    "pytest==9.2.0",
)


def python_client(name: str) -> list[str]:
    """The command of one of :data:`PYTHON_CLIENTS`."""
    folder = _installed("python", [platform.python_version(), *_PACKAGES])
    return [os.fspath(_python(folder)), os.fspath(_HERE / "python" / f"{name}_client.py")]


def gemini_python() -> Path:
    """A Python with Google's SDK and what is built on it."""
    digest = hashlib.sha256("\0".join([platform.python_version(), *_GEMINI_PACKAGES]).encode()).hexdigest()[
        :16
    ]
    folder = install.BENCH / "clients" / f"gemini-{digest}"
    return _python(install.once(folder, lambda made: _install_python(made, _GEMINI_PACKAGES)))


def gemini_client() -> list[str]:
    """The command that has the steps of Gemini's Python clients."""
    return [os.fspath(gemini_python()), os.fspath(_HERE / "python" / "gemini_client.py")]


def gemini_cli(directory: Path) -> list[str]:
    """The command of Gemini CLI, at work in a folder."""
    node = install.needed("node", "run Gemini CLI")
    return ["env", "--chdir", os.fspath(directory), node, os.fspath(program("gemini"))]


def node_client(name: str) -> list[str]:
    """The command of one of :data:`NODE_CLIENTS`."""
    node = install.needed("node", "run clients")
    folder = _installed("node", [(_HERE / "node" / "package.json").read_text("utf-8")])
    for source in (_HERE / "node").glob("*.mjs"):  # which find their packages only beside themselves
        shutil.copy(source, folder)
    return [node, os.fspath(folder / f"{name}.mjs")]


def go_client() -> list[str]:
    """The command that has the steps of all :data:`GO_APIS`."""
    sources = sorted((_HERE / "go").iterdir())
    folder = _installed("go", [file.read_text("utf-8") for file in sources])
    return [os.fspath(folder / _GO_PROGRAM)]


def _installed(language: str, contents: Iterable[str]) -> Path:
    """A folder for exactly these contents."""
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]
    fill = {"python": _install_python, "node": _install_node, "go": _build_go}[language]
    return install.once(install.BENCH / "clients" / f"{language}-{digest}", fill)


def _install_python(folder: Path, packages: Sequence[str] = _PACKAGES) -> None:
    install.completed([sys.executable, "-m", "venv", folder])
    install.completed([_python(folder), "-m", "pip", "install", "--disable-pip-version-check", *packages])


def _install_node(folder: Path) -> None:
    npm = install.needed("npm", "install clients")
    shutil.copy(_HERE / "node" / "package.json", folder)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
    install.completed([npm, "install", "--prefix", folder, *options])


def _build_go(folder: Path) -> None:
    go = install.needed("go", "build clients")
    options = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    install.completed([go, "build", "-C", _HERE / "go", *options, "-o", folder / _GO_PROGRAM, "."])


def _python(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin") / "python"
