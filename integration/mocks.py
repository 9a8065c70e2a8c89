"""Servers made to be broken: aimock and llmock, which imitate providers and their faults."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from integration import install
from tests.servers.process import running

__all__ = ["AIMOCK_VERSION", "Aimock", "Llmock", "aimock_package", "start_aimock", "start_llmock"]

AIMOCK_VERSION: Final = "1.43.0"
_AIMOCK_PACKAGE: Final = Path("node_modules", "@copilotkit", "aimock", "dist")
_LLMOCK_VERSION: Final = "0.2.2"


@dataclass(frozen=True, slots=True)
class Aimock:
    """OpenAI, Anthropic, Ollama and Gemini at once, all below this URL."""

    url: str
    _headers: dict[str, str]
    """Its controls want the key too, if it has one."""
    pid: int

    def break_all(self, **faults: float) -> None:
        """Probabilities of faults from now on, instead of those before; none at all is no fault.

        ``dropRate`` (a status 500), ``malformedRate`` (a body that is no JSON), ``rateLimitRate``
        (429 with Retry-After), ``disconnectRate``, and ``latencyMs`` before every answer. They are
        drawn in this order and the first that hits is the only one.
        """
        _post(f"{self.url}/__aimock/chaos", faults, self._headers)

    def fail_once(self, status: int, message: str, **body: str) -> None:
        """An error for the next call."""
        error = {"status": status, "body": {"message": message, **body}}
        _post(f"{self.url}/__aimock/error", error, self._headers)


@dataclass(frozen=True, slots=True)
class Llmock:
    """OpenAI below ``/v1``, Anthropic below ``/anthropic``, Gemini below ``/gemini``."""

    url: str

    def script(self, *behaviours: dict[str, Any]) -> None:
        """What happens to the next calls.

        Each takes, of every type, the first that is left and that its ``match`` accepts; ``times``
        says for how many calls one lasts, ``None`` forever.
        """
        _post(f"{self.url}/_llmock/scenario", {"behaviors": behaviours})

    def reset(self) -> None:
        """Forget the calls and what was scripted."""
        _post(f"{self.url}/_llmock/reset", {})


@contextmanager
def start_aimock(
    directory: Path,
    fixtures: Sequence[dict[str, Any]] | Path,
    options: Sequence[str] = (),
    *,
    api_key: str | None = None,
) -> Iterator[Aimock]:
    """An aimock that answers from fixtures, until the block ends.

    Args:
        directory: For them and its log.
        fixtures: What it knows, or a folder of its own files, which it also records into.
        options: For its command line.
        api_key: The only one that it lets in.
    """
    node = install.needed("node", "run aimock")
    program = aimock_package() / "cli.js"
    if isinstance(fixtures, Path):
        file = fixtures
    else:
        file = directory / "aimock-fixtures.json"
        file.write_text(json.dumps({"fixtures": fixtures}))
    command: list[str | Path] = [
        node,
        program,
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--fixtures",
        file,
        *options,
    ]
    environment, headers = dict(os.environ), {}
    if api_key is not None:
        environment["AIMOCK_API_KEYS"] = headers["x-api-key"] = api_key
    with running(command, directory / "aimock.log", environment=environment) as server:
        yield Aimock(server.announced(r"listening on (http://\S+)"), headers, server.process.pid)


@contextmanager
def start_llmock(directory: Path, options: Sequence[str] = ()) -> Iterator[Llmock]:
    """An llmock, until the block ends; takes a folder for its log."""
    folder = install.once(install.BENCH / "llmock" / _LLMOCK_VERSION, _install_llmock)
    command: list[str | Path] = [
        _python(folder),
        "-m",
        "llmock.cli",
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        *options,
    ]
    with running(command, directory / "llmock.log") as server:
        yield Llmock(server.announced(r"Uvicorn running on (http://\S+)"))


def aimock_package() -> Path:
    """Where its modules are."""
    return install.once(install.BENCH / "aimock" / AIMOCK_VERSION, _install_aimock) / _AIMOCK_PACKAGE


def _install_aimock(folder: Path) -> None:
    npm = install.needed("npm", "install aimock")
    package = f"@copilotkit/aimock@{AIMOCK_VERSION}"
    install.completed(
        [npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", package]
    )


def _install_llmock(folder: Path) -> None:
    install.completed([sys.executable, "-m", "venv", folder])
    package = f"llmock=={_LLMOCK_VERSION}"
    install.completed([_python(folder), "-m", "pip", "install", "--disable-pip-version-check", package])


def _python(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin") / "python"


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
    with httpx.Client(trust_env=False) as client:
        client.post(url, json=body, headers=headers).raise_for_status()
