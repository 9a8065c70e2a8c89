"""A recording says who answered, in the same words on every road."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import OpenAICompatAdapter, RecordingAdapter, Store, intercept
from cortex_replay.config import Settings
from cortex_replay.config.servers import shown_url
from cortex_replay.run import Run
from cortex_replay.run.batch import BatchReport, read_jobs, run_batch
from tests.adapters.fake_provider import FakeProvider
from tests.engine.http.harness import ask, body_of, request_for, run_over
from tests.gateway.upstream import REAL_KEY, model_server

HELLO = request_for("Say hello.")


def gateway(root: Path, server: FakeProvider) -> None:
    with run_over(root, "once", server.url) as run:
        ask(run, "POST", "/openai/v1/chat/completions", body_of("openai-chat", HELLO))


def override(root: Path, server: FakeProvider) -> None:
    with run_over(root, "once", servers={"openai": f"{server.url}/v1"}) as run:
        headers = [("authorization", f"Bearer {REAL_KEY}")]
        ask(run, "POST", "/openai/v1/chat/completions", body_of("openai-chat", HELLO), headers)


def interception(root: Path, server: FakeProvider) -> None:
    import httpx  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        patch.setenv("OPENAI_API_KEY", REAL_KEY)
        with intercept(root, "once"):
            url = f"{server.url}/v1/chat/completions"
            assert httpx.post(url, json=body_of("openai-chat", HELLO)).status_code == 200


def adapter(root: Path, server: FakeProvider) -> None:
    run = Run.open(Settings(), "once", root, servers={"openai": f"{server.url}/v1"})

    async def complete() -> None:
        async with run.adapter("openai") as llm:
            await llm.complete(HELLO)

    asyncio.run(complete())
    run.commit()


def batch(root: Path, server: FakeProvider) -> None:
    run = Run.open(Settings(), "once", root, servers={"openai": f"{server.url}/v1"})

    async def record() -> None:
        async with run.adapter("openai") as llm:
            line = json.dumps({"model": HELLO.model, "messages": "Say hello.", "max_tokens": 16}).encode()
            jobs = read_jobs(BytesIO(line), 1000)
            await run_batch(BatchReport(1), jobs, {None: llm}, 1)

    asyncio.run(record())
    run.commit()


@pytest.mark.parametrize("road", [gateway, override, interception, adapter, batch])
def test_who_answered(tmp_path: Path, road: Callable[[Path, FakeProvider], None]) -> None:
    with model_server() as server:
        road(tmp_path, server)

    said = meta_in(tmp_path)
    expected = ("openai", "openai-chat", f"{server.url}/v1")
    assert (said["provider"], said["wire"], said["upstream"]) == expected


def test_an_adapter_of_one_s_own_says_which_server_answered(tmp_path: Path) -> None:
    """Of the provider it knows the name only where the server is the provider's own."""
    with model_server() as server:
        recorder = RecordingAdapter(OpenAICompatAdapter(f"{server.url}/v1"), tmp_path)
        with recorder.sync as llm:
            llm.complete(HELLO)

    said = meta_in(tmp_path)
    assert (said["wire"], said["upstream"], said.get("provider")) == ("openai-chat", f"{server.url}/v1", None)
    assert OpenAICompatAdapter().origin == {
        "adapter": "openai-compat",
        "provider": "openai",
        "wire": "openai-chat",
        "upstream": "https://api.openai.com/v1",
    }


def meta_in(root: Path) -> dict[str, Any]:
    store = Store.open(root)
    (item,) = store.list()
    return store.get(item.model, item.prompt_hash).meta or {}


def test_a_server_is_shown_without_what_is_secret_in_its_url() -> None:
    assert shown_url("https://user:pass@llm.example:8443/v1/?key=x#y") == "https://llm.example:8443/v1"
