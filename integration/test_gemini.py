"""Gemini's clients as they are, recorded through the gateway and within a test; then without a server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from cortex_replay import Store
from integration import install
from integration.clients.install import gemini_cli, gemini_client, gemini_python, node_client
from integration.gateway_clients import Ran, behind
from tests.gateway.upstream import REAL_KEY, model_server

MODEL: Final = "gemini-2.5-flash"
PLAIN: Final = {"CLIENT_MODEL": MODEL, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
TIMES: Final = 20


@contextmanager
def google() -> Iterator[dict[str, str]]:
    """A scripted server at both of Google's places; gives what leads there."""
    with model_server() as server:
        places = dict.fromkeys(("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"), server.url)
        # The gateway has the key of the one, and clients bring a token for the other.
        yield PLAIN | places | {"GEMINI_API_KEY": REAL_KEY, "CLIENT_WORD": REAL_KEY}


def recorded(store: Path, command: Sequence[str], **variables: str) -> Ran:
    with google() as environment:
        live = behind("record", store, command, environment | variables)
    assert live.status == 0, live.told
    assert (live.ledger["not_recorded"], live.ledger["misses"]) == ([], [])
    return live


def replayed(store: Path, command: Sequence[str], environment: Mapping[str, str] = PLAIN) -> Ran:
    again = behind("replay", store, command, environment, ("--fail-on", "miss"))
    assert again.status == 0, again.told
    assert (again.ledger["misses"], again.ledger["live"], again.ledger["bypassed"]) == ([], 0, {})
    return again


@pytest.mark.parametrize("client", ["python", "node"])
def test_a_client_is_replayed_without_its_server(client: str, tmp_path: Path) -> None:
    """google-genai in both languages, pydantic-ai, LangChain and LiteLLM, and Claude at Vertex: every time
    the same, streams piece by piece, and no key is left behind."""
    store = tmp_path / "store"
    command = gemini_client() if client == "python" else node_client("gemini")
    live = recorded(store, command)

    for _ in range(TIMES if client == "node" else 3):
        assert replayed(store, command).said == live.said

    assert len(live.steps) == (17 if client == "python" else 6)
    found = [file for file in store.rglob("*") if file.is_file() and REAL_KEY.encode() in file.read_bytes()]
    assert found == []
    assert REAL_KEY not in live.said + live.told


def test_another_language_is_answered_with_the_recording(tmp_path: Path) -> None:
    store = tmp_path / "store"
    live = recorded(store, [*gemini_client(), "gemini.plain", "gemini.stream"])

    again = replayed(store, [*node_client("gemini"), "gemini.plain", "gemini.stream"])

    assert [step | {"calls": []} for step in again.steps] == [step | {"calls": []} for step in live.steps]


def test_a_kept_prompt_has_the_same_key_under_any_name(tmp_path: Path) -> None:
    """Its name is another one each time. What was read from it is counted, whole and in a stream."""
    command = [*gemini_client(), "gemini.kept", "vertex.kept"]
    stores = [tmp_path / "first", tmp_path / "second"]

    first, second = [recorded(store, command) for store in stores]

    keys = [[found.prompt_hash for found in Store.open(store).list()] for store in stores]
    assert sorted(keys[0]) == sorted(keys[1])
    assert len(keys[0]) == 2  # both places ask the same
    assert [step["name"] for step in first.steps] != [step["name"] for step in second.steps]
    for step in first.steps:
        assert step["text"] == "You said: And pets? (Be brief. The rules of the house.)"
        assert "".join(step["pieces"]) == "You said: And cats? (Be brief. The rules of the house.)"
        assert (step["cached"], step["cached_in_stream"], step["is_listed"]) == (2000, 2000, True)
    assert replayed(stores[0], command).said == first.said


def test_gemini_cli_is_replayed(tmp_path: Path) -> None:
    """An agent with a long prompt, tools and several turns, as it is installed."""
    store, home = tmp_path / "store", tmp_path / "home"
    (home / ".gemini").mkdir(parents=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},  # which go to another host
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "work").mkdir()
    told = {"HOME": os.fspath(home), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    command = [*gemini_cli(tmp_path / "work"), "-m", MODEL, "-p", "Hello"]

    live = recorded(store, command, **told)
    again = replayed(store, command, PLAIN | told)

    assert again.said == live.said
    assert "You said" in live.said


TESTS: Final = f"""
import pytest
from google import genai

pytestmark = pytest.mark.llm_replay

def test_whole():
    client = genai.Client()
    assert client.models.generate_content(model={MODEL!r}, contents="Within").text == "You said: Within"

def test_stream():
    client = genai.Client()
    stream = client.models.generate_content_stream(model={MODEL!r}, contents="Within, in pieces")
    assert [chunk.text for chunk in stream] == ["You ", "said: ", "Within, ", "in ", "pieces", ""]

def test_kept():
    client = genai.Client()
    cache = client.caches.create(model={MODEL!r}, config={{"contents": "The rules."}})
    config = {{"cached_content": cache.name}}
    answer = client.models.generate_content(model={MODEL!r}, contents="Pets?", config=config)
    assert answer.text == "You said: Pets? (The rules.)"
    assert answer.usage_metadata.cached_content_token_count == 2000
"""
MISS: Final = f"""
import pytest
from google import genai

@pytest.mark.llm_replay
def test_miss():
    client = genai.Client()
    client.models.generate_content(model={MODEL!r}, contents="Never asked")
"""


def test_within_a_test(tmp_path: Path) -> None:
    """The plugin sees httpx, which google-genai uses; a miss is an error of the SDK's, with the reason."""
    (tmp_path / "test_within.py").write_text(TESTS)
    (tmp_path / "miss.py").write_text(MISS)
    python = gemini_python()
    install.completed([python, "-m", "pip", "install", "--quiet", "-e", Path(__file__).parents[1]])

    def run(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-store", "llm", *options],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": os.fspath(tmp_path)} | variables,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    with google() as environment:
        first = run("--llm-mode", "once", "test_within.py", **environment)
    again = [run("test_within.py") for _ in range(2)]
    missed = run("miss.py")

    assert first.returncode == 0, first.stdout
    assert [done.returncode for done in again] == [0, 0], again[0].stdout
    assert missed.returncode == 1
    assert "google.genai.errors.ClientError: 424" in missed.stdout
    assert "nothing is recorded for gemini-2.5-flash" in missed.stdout
    assert REAL_KEY not in "".join(file.read_text() for file in (tmp_path / "llm").rglob("*.json"))
