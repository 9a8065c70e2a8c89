"""The programs of the other side, built once; without cargo there is nothing to show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import programs
from integration.peer import Crtx

CRATE_VERSION = "0.1.1"


@pytest.fixture(scope="session", autouse=True)
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


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORTEX_REPLAY_STORE", raising=False)
