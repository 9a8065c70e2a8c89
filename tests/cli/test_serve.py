"""``cortex-replay serve``."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest

from cortex_replay import Store
from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import record_tool
from tests.cli.programs import Shell, served


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_server_records_until_it_is_stopped(
    shell: Shell, provider: FakeProvider, tmp_path: Path, stop: signal.Signals
) -> None:
    options = ["--mode", "once", "--upstream", f"ollama={provider.url}", "--url-file", "url"]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
    with served(shell, *options, stop=stop) as (facts, process):
        assert (tmp_path / "url").read_text() == facts["url"]
        assert (tmp_path / "url").stat().st_mode & 0o777 == 0o600
        assert facts["pid"] == process.pid
        assert re.fullmatch(rf"http://127\.0\.0\.1:{facts['port']}/t-[0-9a-f]{{64}}", facts["url"])
        recorded = httpx.post(f"{facts['url']}/ollama/api/chat", json=body).content
        assert httpx.post(f"http://127.0.0.1:{facts['port']}/api/chat", json=body).status_code == 401
    assert process.returncode == 0
    (tmp_path / "cortex-replay.toml").write_text(
        'currency = "EUR"\nprices.m = { input = 1000, output = 0 }\n'
    )
    with served(shell) as (facts, _):
        assert facts["mode"] == "replay"
        assert httpx.post(f"{facts['url']}/api/chat", json=body).content == recorded
    assert "0.0110 EUR saved" in facts["talk"]


def test_in_ci_only_what_is_said_records(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    (tmp_path / "cortex-replay.toml").write_text('mode = "once"\n')
    record_tool(tmp_path / "llm")
    with served(shell, CI="true") as (facts, _):
        assert facts["mode"] == "replay"
    assert "replay: 0 fixtures and 1 other call in " in facts["talk"]
    with served(shell, "--mode", "once", CI="true") as (facts, _):
        assert facts["mode"] == "once"
    assert "CI is set" in facts["talk"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve", "--upstream", "=x"], "NAME=URL"),
        (["serve", "--host", "0.0.0.0"], "--allow-remote"),
    ],
)
def test_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[str], reason: str) -> None:
    Store.create(tmp_path)
    result = shell.run(*arguments)

    assert result.status == 2, result.talk
    assert reason in result.talk
