"""The suite over the adapters that llama.cpp's server can answer, and over replay of what it answered."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from cortex_replay import ReplayAdapter
from tests.adapters.conformance import LLAMACPP, AdapterConformance, Subject, replayed
from tests.adapters.conftest import API_KEY


class TestLive(AdapterConformance):
    @pytest.fixture(params=LLAMACPP)
    def subject(self, request: pytest.FixtureRequest, llamacpp: str) -> Subject:
        return LLAMACPP[request.param](llamacpp, API_KEY)


@pytest.fixture(
    scope="module", params=["claude-streamed", "chat-streamed", "chat-whole", "responses-streamed"]
)
def recorded(
    request: pytest.FixtureRequest, llamacpp: str, tmp_path_factory: pytest.TempPathFactory
) -> Subject:
    api, _, how = request.param.partition("-")
    live = LLAMACPP[api](llamacpp, API_KEY)

    async def record() -> Subject:
        async with live.adapter:
            return await replayed(live, tmp_path_factory.mktemp("store"), is_streamed=how == "streamed")

    return asyncio.run(record())


class TestReplay(AdapterConformance):
    """The answers above, from a store: recorded whole and as streams."""

    @pytest.fixture
    def subject(self, recorded: Subject) -> Subject:
        assert isinstance(recorded.adapter, ReplayAdapter)
        return dataclasses.replace(recorded, adapter=ReplayAdapter(recorded.adapter.store))
