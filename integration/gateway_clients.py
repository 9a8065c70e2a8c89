"""Programs with real SDKs behind ``cortex-replay record`` and ``replay``, and the servers they fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from integration.clients.install import go_client, node_client, python_client
from integration.ollama import start_ollama
from tests.servers import llamacpp, tiny_model

__all__ = ["CASES", "KEY", "Case", "Ran", "Upstream", "behind", "cortex_replay", "upstream"]

Upstream = Literal["llamacpp", "ollama"]

# Of no shape that a redactor knows: where it is not stored, it was never written.
KEY: Final = "canary-of-the-gateway-alone"
_SECONDS: Final = 120
_FOREIGN: Final = (  # what leads to a provider, and the summary of a job, which is not for tests to fill
    "ANTHROPIC_",
    "OPENAI_",
    "OLLAMA_",
    "GOOGLE_",
    "GEMINI_",
    "AWS_",
    "CORTEX_",
    "LANGSMITH_",
    "LANGCHAIN_",
    "GITHUB_STEP_SUMMARY",
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY")

_THREE: Final = ("anthropic", "openai-chat", "openai-responses")
# All but the last one, for which Ollama has no endpoint.
_UNCOUNTED: Final = tuple(
    f"anthropic.{step}"
    for step in (
        "plain",
        "think",
        "stream",
        "raw_stream",
        "tool",
        "tool_stream",
        "tool_result",
        "structured",
        "turns",
        "concurrent",
        "async_stream",
        "models",
    )
)
# The package ai and llama.cpp's responses disagree about streams, and about what a second turn looks like.
_RESPONSES_OF_AI: Final = tuple(
    f"openai-responses.{step}" for step in ("plain", "tool", "tool_result", "structured", "concurrent")
)


@dataclass(frozen=True, slots=True)
class Case:
    client: str
    """``LANGUAGE-NAME``."""
    upstream: Upstream
    chosen: tuple[str, ...] = ()
    """The APIs and steps that the server can answer; none for all."""

    def __str__(self) -> str:
        return f"{self.client}-{self.upstream}"

    @property
    def command(self) -> list[str]:
        return [*_command_of(self.client), *self.chosen]


CASES: Final = (
    Case("python-anthropic", "llamacpp"),
    Case("python-openai", "llamacpp"),
    Case("python-pydantic_ai", "llamacpp"),
    Case("python-langchain", "llamacpp", _THREE),
    Case("node-anthropic", "llamacpp"),
    Case("node-openai", "llamacpp"),
    Case("node-ai", "llamacpp", ("anthropic", "openai-chat", *_RESPONSES_OF_AI)),
    Case("go", "llamacpp", _THREE),
    Case("python-anthropic", "ollama", _UNCOUNTED),
    Case("python-openai", "ollama"),
    Case("python-ollama", "ollama"),
    Case("python-pydantic_ai", "ollama"),
    Case("python-langchain", "ollama"),
    Case("node-anthropic", "ollama", _UNCOUNTED),
    Case("node-openai", "ollama"),
    Case("node-ollama", "ollama"),
    Case("node-ai", "ollama"),
    Case("go", "ollama"),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command behind a gateway ended."""

    status: int
    said: str
    """What the command itself wrote to standard output."""
    ledger: dict[str, Any]
    told: str
    """Standard error, of both."""

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What a client told of its steps."""
        return [json.loads(line) for line in self.said.splitlines()]


def _command_of(client: str) -> list[str]:
    language, _, name = client.partition("-")
    if language == "go":
        return go_client()
    return node_client(name) if language == "node" else python_client(name)


@contextmanager
def upstream(name: Upstream, directory: Path) -> Iterator[dict[str, str]]:
    """A real server until the block ends; gives the variables that lead to it, and the key for it.

    llama.cpp refuses whoever comes without that key. Ollama knows none, and must not pass it on either.
    """
    directory.mkdir()
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    if name == "ollama":
        with start_ollama(directory) as ollama:
            yield keys | _addresses(ollama.url) | {"OLLAMA_HOST": ollama.url}
    else:
        if not llamacpp.is_available():
            pytest.skip("xllamacpp has no wheel for this platform")
        with llamacpp.start_llamacpp(directory, api_key=KEY) as url:
            yield keys | _addresses(url)


def _addresses(url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}


def behind(
    verb: Literal["record", "replay"],
    store: Path,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Ran:
    """Run a command behind a gateway, with nothing in the environment that leads to a provider but this."""
    done = cortex_replay([verb, "--store", store, "--json", *options, "--", *command], store, environment)
    said, line_break, ledger = done.stdout.removesuffix("\n").rpartition("\n")
    assert ledger.startswith('{"hits"'), f"{command} {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Ran(done.returncode, said + line_break, json.loads(ledger), done.stderr)


def cortex_replay(
    arguments: Sequence[str | Path], store: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run our own program, in a process of its own, beside the store."""
    left_out = (*_FOREIGN, *_PROXIES)
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(left_out)}
    return subprocess.run(
        [sys.executable, "-m", "cortex_replay", *arguments],
        env={**kept, "CLIENT_MODEL": tiny_model.MODEL, **(environment or {})},
        cwd=store.parent,  # where no settings are
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
