"""Gateways, and what stands behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.config import Settings
from cortex_replay.gateway import Gateway, Pace
from cortex_replay.run import Run
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server
from tests.servers.llamacpp import is_available, start_llamacpp

Opened = Callable[..., AbstractContextManager[Gateway]]

KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), REAL_KEY)


@pytest.fixture(scope="module", autouse=True)
def _no_proxies_and_no_keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _forget_servers(monkeypatch)
        yield


def _forget_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "OLLAMA_HOST",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A scripted model server that speaks every wire."""
    with model_server() as serving:
        yield serving


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The llama.cpp server, which asks for a key."""
    if not is_available():
        pytest.skip("there is no wheel of xllamacpp for this platform")
    with start_llamacpp(tmp_path_factory.mktemp("llamacpp"), api_key=REAL_KEY) as url:
        yield url


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A gateway over the test's own store; what it recorded is committed when it is left."""
    return lambda mode="replay", upstream=None, **options: gateway_over(
        tmp_path / "store", mode, upstream, **options
    )


@contextmanager
def gateway_over(
    root: Path, mode: Any = "replay", upstream: str | None = None, **options: Any
) -> Iterator[Gateway]:
    store = Store.open_or_create(root, verify="on-read")
    names_of_urls = ("ANTHROPIC_BASE_URL", "OLLAMA_HOST", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL")
    urls = {} if upstream is None else dict.fromkeys(names_of_urls, upstream)
    environment = {**KEYS, **urls, **({} if upstream is None else {"OPENAI_BASE_URL": f"{upstream}/v1"})}
    of_gateway = {
        name: options.pop(name)
        for name in ("token", "allowed_hosts", "max_body", "faults", "proxy")
        if name in options
    }
    pace = Pace.parse(options.pop("pace", "instant"))
    names = ("budget_calls", "budget_tokens", "max_sensitivity", "every_answer")
    settings = replace(
        options.pop("settings", Settings()), **{name: options.pop(name) for name in names if name in options}
    )
    run = Run(settings, mode, store, environment=environment, **options)
    with Gateway(run, pace=pace, **of_gateway).running() as gateway:
        yield gateway
    if run.mode.writes:
        run.commit()
