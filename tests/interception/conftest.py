"""A model server where SDKs look for theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment name a server for every provider."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    monkeypatch.setenv("OLLAMA_HOST", url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", REAL_KEY)
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A model server, in the environment as SDKs look for it."""
    with model_server() as serving:
        point_at(serving.url, monkeypatch)
        yield serving
