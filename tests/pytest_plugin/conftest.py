"""Test runs inside test runs, before a model server that is really there, or really gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


@pytest.fixture
def run(pytester: pytest.Pytester, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the tests in a process of their own; recording has a key and a server, replay has neither."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_", "OLLAMA_", "CORTEX_", "PYTEST_XDIST", "COV_")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("CI", raising=False)
    root = Path(__file__).parents[2]

    def go(*options: str, live: bool = False) -> pytest.RunResult:
        variables = {
            "ANTHROPIC_BASE_URL": provider.url,
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "OLLAMA_HOST": provider.url,
            "ANTHROPIC_API_KEY": REAL_KEY,
            "OPENAI_API_KEY": REAL_KEY,
        }
        for name, value in variables.items():
            if live:
                monkeypatch.setenv(name, value)
            else:
                monkeypatch.delenv(name, raising=False)
        if not live:
            monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
            monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("PYTHONPATH", str(root))
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--llm-store", "llm", *options)

    return go
