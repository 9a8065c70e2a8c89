"""Every test starts from a clean environment."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import certifi
import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.builder import StoreBuilder
from tests.nested import LIGHT
from tests.sampling import SEED_VARIABLE, TORTURE_VARIABLE, seed
from tests.servers.s3 import S3Server, start_moto
from tests.tracing import Tracing
from tests.waiting import LONGEST_S

# Before the first test that imports one of them: helpers explain their assertions as tests do.
pytest.register_assert_rewrite("tests.torture.doomed", "tests.torture.plans")
# No law depends on how quick the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Coverage need not see what pytest does between tests."""
    if (trace := sys.gettrace()) is not None:
        config.pluginmanager.register(Tracing(trace))


def pytest_collection_finish() -> None:
    """Put what was collected, and all that it has loaded, out of the collector's reach.

    Each test run inside a test ends with two collections, of half a second each if they walk over all tests.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How to take the same cases again."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(f"The cases were chosen with {SEED_VARIABLE}={seed()}")


@pytest.fixture(scope="session", autouse=True)
def _signals() -> None:
    """A background job of a shell ignores Ctrl-C, and so would every program that a test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Marks are made with a key of these tests, not with one of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state-home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates() -> Iterator[None]:
    """Read once: every client of httpx reads the world's certificates, 50 ms for each, and asks 127.0.0.1."""
    make = ssl.create_default_context
    shared = cache(lambda path: make(cafile=path))
    usual = [{"cafile": path} for path in (certifi.where(), os.environ.get("SSL_CERT_FILE"))]

    def create(purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH, **given: str) -> ssl.SSLContext:
        is_usual = purpose is ssl.Purpose.SERVER_AUTH and given in usual
        return shared(given["cafile"]) if is_usual else make(purpose, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", create)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """A client that says nothing of it is patient: beside a load, five seconds are short."""
    usual = httpx._config.DEFAULT_TIMEOUT_CONFIG
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "read", "write", "pool"):
            patch.setattr(usual, name, LONGEST_S)
        yield


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{os.devnull}/none")  # no settings of whoever runs the tests
    for name in list(os.environ):
        if name.startswith("CORTEX_") and name != TORTURE_VARIABLE:
            monkeypatch.delenv(name)


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Its runs are light; it has dropped the options of this one."""
    for name, value in LIGHT.items():
        monkeypatch.setenv(name, value)
    return pytester


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    """A sound store of two fixtures, to be changed in exactly one way."""
    made = StoreBuilder(tmp_path / "store")
    made.add("What is one?", "One.")
    made.add("What is two?", "Two.")
    made.write()
    return made


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server in this process, for all tests of it."""
    with start_moto() as server:
        yield server


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket over S3, which this environment leads to."""
    s3_server.enter(monkeypatch)
    return f"s3://{s3_server.new_bucket()}/agents"
