"""Azure, Mistral, Cohere and others by their own SDKs: recorded at a server of their shape, then without."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from integration import install
from integration.gateway_clients import KEY, behind, upstream
from tests.gateway.upstream import REAL_KEY, model_server

CLIENTS: Final = Path(__file__).parent / "clients"
PYTHON: Final = (
    "azure-ai-inference==1.0.0b9",
    "cerebras_cloud_sdk==1.91.0",
    "cohere==7.3.1",
    "groq==1.7.0",
    "mistralai==3.7.0",
    "openai==3.49.0",
    "together==3.0.0",
)
NODE: Final = ("@mistralai/mistralai@2.7.0", "cohere-ai@8.1.0", "openai@6.49.0")
KEYS: Final = (
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "CO_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
)
SERVERS: Final = (
    "AZURE_OPENAI_ENDPOINT",
    "CEREBRAS_BASE_URL",
    "CO_API_URL",
    "DEEPSEEK_API_BASE",
    "GROQ_BASE_URL",
    "MISTRAL_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENROUTER_BASE_URL",
    "TOGETHER_BASE_URL",
    "XAI_BASE_URL",
)
AZURE: Final = {"OPENAI_API_VERSION": "2024-10-21", "AZURE_OPENAI_ENDPOINT": "anything"}
"""What Azure's clients still need where they are replayed; neither is secret."""


def python_client() -> list[str]:
    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        install.completed([folder / "bin/python", "-m", "pip", "install", "--quiet", *PYTHON])

    folder = install.once(install.BENCH / "clients" / f"variants-{platform.python_version()}", fill)
    return [os.fspath(folder / "bin/python"), os.fspath(CLIENTS / "python/variants_client.py")]


def node_client() -> list[str]:
    def fill(folder: Path) -> None:
        npm = install.needed("npm", "install clients")
        install.completed([npm, "install", "--prefix", folder, "--no-audit", "--ignore-scripts", *NODE])

    node = install.needed("node", "run clients")
    folder = install.once(install.BENCH / "clients/variants-node", fill)
    for program in ("variants.mjs", "steps.mjs"):
        shutil.copy(CLIENTS / "node" / program, folder)
    return [node, os.fspath(folder / "variants.mjs")]


@pytest.mark.parametrize("client", [python_client, node_client])
def test_an_sdk_is_replayed_without_its_server(tmp_path: Path, client: Callable[[], list[str]]) -> None:
    """Twenty times the same, streams piece by piece; with no key in the client."""
    command, store = client(), tmp_path / "store"
    with model_server() as server:
        environment = dict.fromkeys(KEYS, REAL_KEY) | dict.fromkeys(SERVERS, server.url) | AZURE
        environment["AZURE_OPENAI_ENDPOINT"] = server.url
        live = behind("record", store, command, environment)
    assert live.status == 0, live.told
    assert (live.ledger["not_recorded"], live.ledger["failed"]) == ([], 0)
    paths = {received.path.partition("?")[0] for received in server.received}
    assert {"/openai/deployments/tiny/chat/completions", "/v2/chat", "/v1/completions"} <= paths

    for _ in range(20 if client is python_client else 3):
        again = behind("replay", store, command, AZURE, options=("--fail-on", "miss"))

        assert again.status == 0, again.told
        assert again.said == live.said
        assert (again.ledger["misses"], again.ledger["live"]) == ([], 0)
    assert REAL_KEY not in live.said + live.told


def test_completions_of_a_real_server(tmp_path: Path) -> None:
    """Those of llama.cpp, whole and as a stream."""
    store, command = tmp_path / "store", [*python_client(), "completions"]
    with upstream("llamacpp", tmp_path / "server") as environment:
        live = behind("record", store, command, {**environment, **AZURE})
    assert live.status == 0, live.told
    assert live.ledger["not_recorded"] == []

    again = behind("replay", store, command, AZURE, options=("--fail-on", "miss"))
    assert (again.status, again.said) == (0, live.said), again.told
    assert KEY not in again.said + again.told
