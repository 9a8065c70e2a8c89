"""Shells without keys, and what stands behind them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import Shell
from tests.gateway.upstream import model_server


@pytest.fixture
def in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name == "CI" or name.startswith("CORTEX_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell without keys."""
    names = ("PATH", "SSL_CERT_FILE", "LANG")
    return {"HOME": str(tmp_path), **{name: os.environ[name] for name in names if name in os.environ}}


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Shell:
    return Shell(tmp_path, environment)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A scripted model server that speaks every wire."""
    with model_server() as serving:
        yield serving
