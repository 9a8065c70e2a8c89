"""``cortex-replay record`` against real servers, and replay when they are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cortex_replay import LlmRequest, ReplayAdapter
from cortex_replay.cli.main import main
from integration.ollama import Ollama


def record(*arguments: str) -> dict[str, object]:
    return invoke("record", *arguments)


def invoke(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def replayed(store: Path, model: str, prompt: str) -> str:
    return ReplayAdapter(store).sync.complete(LlmRequest(model, "", prompt, 0.0, 64)).text


def test_a_local_ollama_is_recorded(ollama: Ollama, tmp_path: Path) -> None:
    """Pinned to the bytes it consists of; a batch too; then without it."""
    model = f"{ollama.model}:latest@sha256:{ollama.digest}"
    common = ("--store", str(tmp_path), "--provider", "ollama", "--base-url", ollama.url)
    asked = ("--model", model, "--temperature", "0", "--max-tokens", "64", "--prompt")

    said = record(*common, *asked, "#unicode")

    assert said["recorded"] is True
    assert replayed(tmp_path, model, "#unicode") == said["text"] == "Café yes 🙂日"
    lines = [
        {"model": model, "messages": m, "temperature": 0, "max_tokens": 64}
        for m in ("Hi.", "#json", "#unicode")
    ]
    batch = tmp_path.parent / "batch.jsonl"
    batch.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert invoke("batch", *common, str(batch))["calls"] == 2
    assert CliRunner().invoke(main, ["verify", "--strict", str(tmp_path)]).exit_code == 0
    assert CliRunner().invoke(main, ["scan", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize("kind", ["claude", "openai-compat", "openai-responses"])
def test_a_server_of_ones_own_is_recorded(
    kind: str, llamacpp: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a provider of one's own in the configuration, with a key of its own, which is stored nowhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINY_KEY", "canary-key-1234567890")
    path = "" if kind == "claude" else "/v1"
    Path("cortex-replay.toml").write_text(
        f'provider = "tiny"\nmodel = "tiny"\n[providers.tiny]\nkind = "{kind}"\n'
        f'base_url = "{llamacpp}{path}"\nkey_env = "TINY_KEY"\n'
    )

    said = record("--temperature", "0", "--max-tokens", "64", "--prompt", "#think")

    assert said["text"] == "The answer is 42."
    assert replayed(tmp_path, "tiny", "#think") == said["text"]
    refreshed = CliRunner().invoke(main, ["refresh", "--check"])
    assert refreshed.exit_code == 0, refreshed.output
    assert "1 asked again, 0 differ" in refreshed.stdout
    assert not any("canary" in path.read_text() for path in tmp_path.rglob("*.json"))
