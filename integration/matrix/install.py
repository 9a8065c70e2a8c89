"""The programs of the matrix, installed or built once below ``.bench/matrix``, and their versions."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from integration import install
from integration.clients.install import go_client
from integration.matrix.clients import Client

__all__ = ["command_of", "python_of", "version_of"]

_HERE: Final = Path(__file__).resolve().parent
_CLIENTS: Final = _HERE.parent / "clients"
_ROOT: Final = _HERE.parents[1]
_PACKAGES: Final = {
    "main": (
        "aiohttp==3.14.5",
        "anthropic==2.8.0",
        "boto3==1.44.0",
        "cohere==7.3.1",
        "google-genai==3.1.0",
        "groq==1.7.0",
        "huggingface_hub==2.4.0",
        "langchain-anthropic==1.7.7",
        "langchain-ollama==1.1.0",
        "langchain-openai==1.7.3",
        "mistralai==3.7.0",
        "ollama==0.6.3",
        "openai==3.49.0",
        "openai-agents==0.24.0",
        "pydantic-ai-slim[anthropic,openai]==2.62.0",
        "requests==2.34.2",
    ),
    "litellm": ("litellm==1.106.2", "mcp==2.3.0"),
    "tools": ("instructor==1.17.0", "llm==0.36"),
}


def command_of(client: Client) -> list[str]:
    """What runs a client."""
    program, *arguments = client.program.split()
    if client.language == "Python":
        command = [python_of(client.group), os.fspath(_CLIENTS / "python" / program)]
    elif client.language == "JavaScript":
        folder = _node_folder()
        command = [os.fspath(folder / "node_modules" / "node" / "bin" / "node"), os.fspath(folder / program)]
    elif client.language == "Go":
        command = go_client() if program == "clients" else [os.fspath(_go_folder() / "matrix")]
    elif client.language == "Rust":
        command = [os.fspath(_rust_folder() / "release" / "matrix")]
    else:
        command = ["/bin/sh", os.fspath(_CLIENTS / program)]
    return [*command, *arguments, *client.steps]


def python_of(group: str) -> str:
    """The Python that has a group of packages, and this project as it is."""
    packages = _PACKAGES[group]

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        install.completed([*pip, *packages])
        install.completed([*pip, "--editable", _ROOT])

    return os.fspath(_folder(f"python-{group}", packages, fill) / "bin" / "python")


def _node_folder() -> Path:
    package = _HERE / "package.json"

    def fill(folder: Path) -> None:
        npm = install.needed("npm", "install clients")
        shutil.copy(package, folder)
        options = [
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
        ]  # with scripts: that of the package node is needed
        install.completed([npm, "install", "--prefix", folder, *options])

    folder = _folder("node", [package.read_text("utf-8")], fill)
    for program in (_CLIENTS / "node").glob("*.mjs"):  # which find their packages only beside themselves
        shutil.copy(program, folder)
    return folder


def _go_folder() -> Path:
    sources = [file.read_text("utf-8") for file in sorted((_HERE / "go").iterdir())]

    def fill(folder: Path) -> None:
        go = install.needed("go", "build clients")
        install.completed(
            [go, "build", "-C", _HERE / "go", "-trimpath", "-buildvcs=false", "-o", folder / "matrix", "."]
        )

    return _folder("go", sources, fill)


def _rust_folder() -> Path:
    sources = [
        (_HERE / "rust" / name).read_text("utf-8") for name in ("Cargo.toml", "Cargo.lock", "src/main.rs")
    ]

    def fill(folder: Path) -> None:
        cargo = install.needed("cargo", "build clients")
        manifest = _HERE / "rust" / "Cargo.toml"
        install.completed(
            [cargo, "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", folder]
        )

    return _folder("rust", sources, fill)


def _folder(name: str, contents: Iterable[str], fill: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]
    return install.once(install.BENCH / "matrix" / f"{name}-{digest}", fill)


def version_of(client: Client) -> str:
    """The version of what is installed."""
    if client.language == "Python":
        return _python_versions(client.group)[client.package.lower().replace("_", "-")]
    if client.language == "JavaScript":
        file = _node_folder() / "node_modules" / client.package / "package.json"
        return str(json.loads(file.read_text("utf-8"))["version"])
    if client.language == "Go" and client.package == "go":
        return _output(["go", "env", "GOVERSION"]).removeprefix("go")
    if client.language == "Go":
        folder = _CLIENTS / "go" if client.program == "clients" else _HERE / "go"
        found = re.search(
            rf"{re.escape(client.package)}(?:/v\d+)? v(\S+)", (folder / "go.mod").read_text("utf-8")
        )
        return found[1] if found else "?"
    if client.language == "Rust":
        lock = (_HERE / "rust" / "Cargo.lock").read_text("utf-8")
        found = re.search(rf'name = "{client.package}"\nversion = "([^"]+)"', lock)
        return found[1] if found else "?"
    return _output([client.package, "--version"]).split()[1]


@cache
def _python_versions(group: str) -> dict[str, str]:
    script = (
        "import json, platform; from importlib.metadata import distributions; "
        "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in distributions()} "
        "| {'python': platform.python_version()}))"
    )
    versions: dict[str, str] = json.loads(_output([python_of(group), "-c", script]))
    return versions


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
