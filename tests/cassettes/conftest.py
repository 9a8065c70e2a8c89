"""Cassettes, and the command that takes them over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from cortex_replay.cli.import_cassettes import import_command
from cortex_replay.errors import LlmError

Imported = Callable[..., dict[str, Any]]

ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}


@pytest.fixture(autouse=True)
def _no_proxies_and_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    monkeypatch.delenv("CORTEX_REPLAY_STORE", raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(import_command, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit | LlmError):
        raise result.exception
    return result


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    """Run the command over the test's own store; its report, with the exit status."""

    def run_it(*arguments: str | Path) -> dict[str, Any]:
        result = run("--store", tmp_path / "store", "--json", *arguments)
        assert result.stdout, result.stderr
        return {**json.loads(result.stdout), "exit": result.exit_code}

    return run_it


def said(text: str, **more: Any) -> dict[str, Any]:
    """A whole answer of Anthropic's API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
        **more,
    }


def interaction(
    asked: Any = ASKED,
    answer: Any = None,
    *,
    uri: str = "https://api.anthropic.com/v1/messages",
    method: str = "POST",
    status: int = 200,
    headers: dict[str, Any] | None = None,
    asked_headers: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """As vcrpy writes it."""
    answer = said("Hi!") if answer is None else answer
    return {
        "request": {
            "method": method,
            "uri": uri,
            "body": asked if isinstance(asked, str | bytes | None) else json.dumps(asked),
            "headers": asked_headers or {},
        },
        "response": {
            "status": {"code": status, "message": "X"},
            "headers": {"content-type": ["application/json"]} if headers is None else headers,
            "body": {"string": answer if isinstance(answer, str | bytes) else json.dumps(answer)},
        },
    }


def write(path: Path, *interactions: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump({"version": 1, "interactions": list(interactions)}))
    return path


def reasons(report: dict[str, Any]) -> list[str]:
    return [left["reason"] for left in report["not_converted"]]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
