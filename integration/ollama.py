"""Real Ollama, private to the test that starts it, with the tiny model.

Since 0.30 it has no inference of its own: for each model it starts a ``llama-server`` that it finds
in ``lib/ollama/`` beside itself. ``ollama_runner.py`` takes that place, with the llama.cpp of the
wheel ``xllamacpp``, so that no C++ is compiled.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from integration import install
from tests.servers import llamacpp, tiny_model
from tests.servers.process import running

__all__ = ["Ollama", "start_ollama"]

_VERSION: Final = "0.34.4"
_MODULE: Final = "github.com/ollama/ollama"
_RUNNER: Final = Path(__file__).parent / "ollama_runner.py"


@dataclass(frozen=True, slots=True)
class Ollama:
    url: str
    digest: str
    """Of the manifest of the model, 64 hexadecimal digits, as ``/api/tags`` tells it."""
    model: str = tiny_model.MODEL


@contextmanager
def start_ollama(directory: Path) -> Iterator[Ollama]:
    """An Ollama with the tiny model, until the block ends.

    Takes an empty folder of its own, for the home, the store of models and the log.
    """
    if not llamacpp.is_available():
        pytest.skip("xllamacpp, which runs the models of Ollama here, has no wheel for this platform")
    program = _built()
    environment = _private_environment(directory)
    with running([program, "serve"], directory / "ollama.log", environment=environment) as server:
        address = server.announced(r"Listening on (127\.0\.0\.1:\d+)")
        _create_model(program, directory, environment | {"OLLAMA_HOST": address})
        yield Ollama(f"http://{address}", _digest(f"http://{address}"))


def _built() -> Path:
    folder = install.once(install.BENCH / "ollama" / _VERSION, _build)
    # Not part of what is built once: the Python that has xllamacpp may be another one each time.
    launcher = folder / "lib" / "ollama" / "llama-server"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([sys.executable, os.fspath(_RUNNER)])
    launcher.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    launcher.chmod(0o755)
    return folder / "ollama"


def _build(folder: Path) -> None:
    install.go_install(_MODULE, _VERSION, folder, version_variable=f"{_MODULE}/version.Version")


def _private_environment(directory: Path) -> dict[str, str]:
    """Nothing of the user's own Ollama is read or written, and nobody is asked for anything."""
    home, models = directory / "home", directory / "models"
    home.mkdir()
    models.mkdir()
    others = {"OLLAMA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(tuple(others))}
    return kept | {
        "HOME": os.fspath(home),
        "OLLAMA_HOST": "127.0.0.1:0",
        "OLLAMA_MODELS": os.fspath(models),
        "OLLAMA_NO_CLOUD": "1",
        "OLLAMA_NUM_PARALLEL": "4",
        "OLLAMA_KEEP_ALIVE": "10m",
    }


def _create_model(program: Path, directory: Path, environment: dict[str, str]) -> None:
    tiny_model.unpack(directory)
    modelfile = shutil.copy(tiny_model.MODELFILE, directory)
    install.completed([program, "create", tiny_model.MODEL, "-f", modelfile], **environment)


def _digest(url: str) -> str:
    with httpx.Client(base_url=url, trust_env=False) as client:
        (model,) = client.get("/api/tags").raise_for_status().json()["models"]
    digest: str = model["digest"]
    return digest
