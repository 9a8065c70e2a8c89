"""The programs of the other side, built once, and the servers that more than one file needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import programs
from integration.ollama import Ollama, start_ollama
from integration.peer import Crtx
from tests.servers.llamacpp import is_available, start_llamacpp

# Its assertions should show what they compared, as those of a test module do.
pytest.register_assert_rewrite("tests.adapters.conformance")

CRATE_VERSION = "0.1.1"


@pytest.fixture(scope="session")
def _needs_cargo() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo to build crtx-llm with")


@pytest.fixture(scope="session")
def crtx(_needs_cargo: None) -> Crtx:
    """The crate's ``ReplayAdapter``."""
    program = programs.built(Path(__file__).parent / "crtx_peer")
    assert program, "cargo cannot build crtx_peer, see above"
    return Crtx(program)


@pytest.fixture(scope="session")
def sign_fixtures(_needs_cargo: None) -> str:
    """The crate's signer, as the crate ships it."""
    program = programs.installed("sign-fixtures", crate="crtx-llm", version=CRATE_VERSION)
    assert program, "cargo cannot install sign-fixtures, see above"
    return program


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server with the tiny model; its URL."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform")
    with start_llamacpp(tmp_path_factory.mktemp("llamacpp")) as url:
        yield url


@pytest.fixture(scope="session")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ollama]:
    """Ollama with the tiny model."""
    with start_ollama(tmp_path_factory.mktemp("ollama")) as server:
        yield server


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORTEX_REPLAY_STORE", raising=False)
