"""Test runs inside test runs, before a model server that is really there, or really gone."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store, TokenUsage
from cortex_replay.providers import PROVIDERS
from cortex_replay.store import Answer, Fixture, FixtureKey
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY, model_server
from tests.nested import XDIST

# Or each run in this process would load them anew, which takes a second for an SDK, and its cookies and
# errors would be of other classes than ours.
for _name in (
    *("aiohttp", "anthropic.resources.messages", "openai.resources.chat", "requests"),
    *("h11", "httpcore", "httpcore2", "jsonschema_rs", "truststore", "uvicorn", "uvloop"),
    *("cortex_replay.adapters", "cortex_replay.gateway", "cortex_replay.run", "cortex_replay.shim"),
    "cortex_replay.interception.mcp.connection",
    *("cortex_replay.pytest_plugin.finish", "cortex_replay.pytest_plugin.summary_text"),
):
    importlib.import_module(_name)

Run = Callable[..., pytest.RunResult]
VARIABLES = [
    name
    for row in PROVIDERS.values()
    for name in (*row.key_variables, *row.url_variables, *row.secret_variables)
]


def record(root: Path, *questions: str, model: str = "m") -> None:
    """Put the answers to chat completions into a store: ``You said: …``."""
    store = Store.open_or_create(root)
    for question in questions:
        body: Any = {"model": model, "messages": [{"role": "user", "content": question}]}
        request = WIRES["openai-chat"].lift(body)
        answer = Answer(f"You said: {question}", finish_reason="stop", usage=TokenUsage(1, 2))
        store.add(Fixture(FixtureKey(model, request.prompt_hash()), (answer,), request))
    store.commit()


def run_in_process(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the tests in this process, which takes a moment."""
    return project.runpytest_inprocess("-p", "no:cacheprovider", *options)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a store, and neither keys nor servers in the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    Store.create(pytester.path / "llm")
    pytester.makeini("[pytest]\nllm_store = llm\n")
    return pytester


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with model_server() as serving:
        yield serving


@pytest.fixture
def run(pytester: pytest.Pytester, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the tests in this process, or in one of their own if they have workers.

    Recording has a key and a server, replay has neither. Further names are variables of its environment.
    """
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_", "OLLAMA_", "CORTEX_", "PYTEST_XDIST", "COV_")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("CI", raising=False)
    root = Path(__file__).parents[2]

    def go(*options: str, live: bool = False, **further: str) -> pytest.RunResult:
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
        monkeypatch.setenv("PYTHONPATH", str(root))
        with monkeypatch.context() as patch:
            for name, value in further.items():
                patch.setenv(name, value)
            options = ("--llm-store", "llm", *options)
            if "-n" in options:
                return pytester.runpytest_subprocess("-p", "no:cacheprovider", *XDIST, *options)
            return run_in_process(pytester, *options)

    return go
