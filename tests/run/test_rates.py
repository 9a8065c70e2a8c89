"""A limit of requests per minute holds at every entrance, and never for what is replayed.

With one request a minute, the second call would go out after its timeout: it fails at once, and nobody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cortex_replay import LlmRequest, Store
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.errors import TurnTooLate
from cortex_replay.gateway import Gateway
from cortex_replay.modes import AnyMode
from cortex_replay.run import Run
from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import batch_file, question, run as command
from tests.gateway.upstream import REAL_KEY, model_server


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


def opened(root: Path, provider: FakeProvider, mode: AnyMode, per_minute: int = 1, **options: Any) -> Run:
    own = ProviderSettings(
        kind="openai-compat", base_url=f"{provider.url}/v1", requests_per_minute=per_minute
    )
    settings = Settings(provider="openai", providers={"openai": own}, **options)
    store = Store.open_or_create(root)
    return Run(settings, mode, store, environment={"OPENAI_API_KEY": REAL_KEY}, timeout_ms=30_000)


def ask(run: Run, *questions: str) -> list[str]:
    """Each with an adapter of its own."""

    async def work() -> list[str]:
        answers = []
        for asked in questions:
            async with run.adapter() as adapter:
                answers.append((await adapter.complete(LlmRequest("m", "", asked, timeout_ms=30_000))).text)
        return answers

    return asyncio.run(work())


def test_all_adapters_of_a_provider_have_one_limit(tmp_path: Path, provider: FakeProvider) -> None:
    """What is not sent is not a live call, and costs nothing."""
    run = opened(tmp_path, provider, "once", budget_tokens=100_000)

    assert ask(run, "One?") == ["You said: One?"]
    spent = run.budget.tokens
    with pytest.raises(TurnTooLate):
        ask(run, "Two?")
    assert (run.ledger.live, run.ledger.unsent) == (1, 1)
    assert (run.budget.calls, run.budget.tokens) == (1, spent)
    assert "with requests_per_minute = 1" in run.ledger.failures[0]
    assert len(provider.received) == 1
    run.commit()

    assert ask(opened(tmp_path, provider, "replay"), *["One?"] * 5) == ["You said: One?"] * 5
    assert ask(opened(tmp_path, provider, "once"), *["One?"] * 5) == ["You said: One?"] * 5


def test_other_providers_and_other_runs_are_not_held_up(tmp_path: Path, provider: FakeProvider) -> None:
    run = opened(tmp_path, provider, "live")

    assert run.rate_of("claude") is None
    ask(run, "One?")
    ask(opened(tmp_path, provider, "live"), "One?")


def test_the_processes_of_a_run_have_one_limit(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_RUN", "nightly")
    one, other = (opened(tmp_path, provider, "live") for _ in range(2))

    ask(one, "One?")
    with pytest.raises(TurnTooLate):
        ask(other, "Two?")
    (kept,) = tmp_path.rglob("rate-*")
    kept.write_text("12.5 1e")  # as a process leaves it that was killed
    ask(other, "Two?")


def chat(url: str, said: str) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": said}]}
    return httpx.post(
        f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {REAL_KEY}"}
    )


def test_what_a_gateway_passes_on_is_limited_and_its_client_is_told_when_to_come_again(
    tmp_path: Path, provider: FakeProvider
) -> None:
    with Gateway(opened(tmp_path, provider, "once")).running() as gateway:
        assert chat(gateway.url("openai"), "One?").status_code == 200
        refused = chat(gateway.url("openai"), "Two?")
        assert chat(gateway.url("openai"), "One?").status_code == 200, "this one is recorded"
        gateway.run.commit()

    assert refused.status_code == 429
    assert 50 < int(refused.headers["retry-after"]) <= 60
    assert "x-should-retry" not in refused.headers
    assert "requests_per_minute" in refused.json()["error"]["message"]
    assert len(provider.received) == 1
    with Gateway(opened(tmp_path, provider, "replay")).running() as gateway:
        assert [chat(gateway.url("openai"), "One?").status_code for _ in range(5)] == [200] * 5


def test_a_limit_holds_where_the_environment_names_the_server(tmp_path: Path, provider: FakeProvider) -> None:
    """It is the provider's, wherever that is; and a server beside it has none."""
    own = ProviderSettings(kind="claude", requests_per_minute=1)
    environment = {
        "ANTHROPIC_API_KEY": REAL_KEY,
        "ANTHROPIC_BASE_URL": provider.url,
        "OPENAI_API_KEY": REAL_KEY,
        "OPENAI_BASE_URL": f"{provider.url}/v1",
    }
    settings, store = Settings(providers={"claude": own}), Store.create(tmp_path)
    run = Run(settings, "live", store, environment=environment, timeout_ms=30_000)
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi."}]}
    with Gateway(run).running() as gateway:
        asked = [httpx.post(gateway.url("anthropic") + "/v1/messages", json=body) for _ in range(2)]
        others = [chat(gateway.url("openai"), "Hi.") for _ in range(3)]

    assert [reply.status_code for reply in asked] == [200, 429]
    assert asked[1].json()["error"]["type"] == "rate_limit_error"
    assert [reply.status_code for reply in others] == [200] * 3


def test_behind_a_gateway_that_counts_nothing_is_counted_twice(
    tmp_path: Path, provider: FakeProvider
) -> None:
    """As in a suite that is recorded by a command around it: what goes there has not gone out yet."""
    own = ProviderSettings(kind="openai-compat", requests_per_minute=1)
    environment = {
        "OPENAI_API_KEY": REAL_KEY,
        "OPENAI_BASE_URL": f"{provider.url}/openai/v1",
        "CORTEX_REPLAY_GATEWAY": provider.url,
    }
    settings, store = Settings(providers={"openai": own}), Store.create(tmp_path)
    run = Run(settings, "live", store, environment=environment, timeout_ms=30_000)
    with Gateway(run).running() as gateway:
        asked = [chat(gateway.url("openai"), "Hi.").status_code for _ in range(3)]

    assert asked == [200] * 3


def test_a_batch_and_a_refresh_keep_to_it(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    config = (
        f'provider = "local"\n[providers.local]\nkind = "openai-compat"\nbase_url = "{provider.url}/v1"\n'
    )
    Path("cortex-replay.toml").write_text(config + "requests_per_minute = 1\n")
    file = batch_file(question(1), question(2))

    first = command("batch", file)
    assert first.exit_code == 1
    assert "1 of 2 requests answered, 1 asked for" in first.stdout
    assert "line 2: timeout: with requests_per_minute = 1" in first.stderr
    command("batch", file)
    assert len(provider.received) == 2, "each run has its own minute, and the first answer was there"
    lifted = command("batch", file, "--requests-per-minute", "60000", "--mode", "record", "--jobs", "1")
    assert lifted.exit_code == 0, lifted.output
    provider.received.clear()
    again = command("refresh", "--check")
    assert "with requests_per_minute = 1" in again.stderr, again.output
    assert len(provider.received) == 1


def test_what_an_sdk_recorded_is_asked_again_no_more_often(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over its own wire, by a client of its own."""
    for name in ("CI", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with Gateway(opened(tmp_path, provider, "once", 60_000)).running() as gateway:
        assert [chat(gateway.url("openai"), said).status_code for said in ("One?", "Two?")] == [200] * 2
        gateway.run.commit()
    Path("cortex-replay.toml").write_text(
        f'[providers.openai]\nbase_url = "{provider.url}/v1"\nrequests_per_minute = 1\n'
    )
    provider.received.clear()

    again = command("refresh", "--check", "--timeout-ms", "5000")

    assert "with requests_per_minute = 1" in again.stderr, again.output
    assert len(provider.received) == 1
