"""A suite of pytest-recording, moved over as `docs/migrating.md` says."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

from cortex_replay import Store
from integration import install
from tests.servers.llamacpp import is_available, start_llamacpp
from tests.servers.tiny_model import MODEL

PROGRAM: Final = Path(sys.executable).with_name("cortex-replay")
KEY: Final = "only-the-recording-had-this-key-5512"
_PACKAGES: Final = ("pytest-recording==0.14.0", "vcrpy==9.4.2", "anthropic==2.8.0", "openai==3.49.0")
_CONFIG: Final = """
import pytest


@pytest.fixture(scope="session")
def vcr_config():
    return {"filter_headers": ["x-api-key"]}  # and the other header was forgotten, as it often is
"""
_SUITE: Final = f"""
import anthropic
import openai
import pytest

MODEL = {MODEL!r}


@pytest.mark.vcr
def test_claude_says_hello():
    with anthropic.Anthropic(max_retries=0) as client:
        question = [{{"role": "user", "content": "Say hello."}}]
        answer = client.messages.create(model=MODEL, max_tokens=64, messages=question)
    assert answer.content[0].text.startswith("Hello from the tiny test model")


@pytest.mark.vcr
@pytest.mark.parametrize("name", ["Ann", "Bob"])
def test_chat_streams(name):
    with openai.OpenAI(max_retries=0) as client:
        question = [{{"role": "user", "content": "Say hello."}}, {{"role": "user", "content": name}}]
        stream = client.chat.completions.create(
            model=MODEL, max_tokens=32, temperature=0, messages=question, stream=True
        )
        pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
    assert "".join(piece or "" for piece in pieces)


@pytest.mark.vcr
def test_models_are_listed():
    with openai.OpenAI(max_retries=0) as client:
        assert MODEL in [model.id for model in client.models.list()]
"""


def recording_python() -> Path:
    """An environment with pytest-recording, installed once below ``.bench``."""

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        install.completed(
            [_python(folder), "-m", "pip", "install", "--disable-pip-version-check", *_PACKAGES]
        )

    digest = hashlib.sha256("\0".join([platform.python_version(), *_PACKAGES]).encode()).hexdigest()[:16]
    return _python(install.once(install.BENCH / "migration" / f"python-{digest}", fill))


def _python(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin") / "python"


def run(command: list[str | Path], folder: Path, **variables: str) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        command, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite, with cassettes that pytest-recording made of a real server, which is gone."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform")
    folder = tmp_path_factory.mktemp("suite")
    (folder / "tests").mkdir()
    (folder / "tests/conftest.py").write_text(_CONFIG)
    (folder / "tests/test_models.py").write_text(_SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    python = recording_python()
    # One for each: whose list of models it is, the address has to tell.
    servers = [tmp_path_factory.mktemp(name) for name in ("claude", "chat")]
    with start_llamacpp(servers[0], api_key=KEY) as claude, start_llamacpp(servers[1], api_key=KEY) as chat:
        addresses = {"ANTHROPIC_BASE_URL": claude, "OPENAI_BASE_URL": f"{chat}/v1"}
        keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
        command: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        run([*command, "--record-mode=once"], folder, **addresses, **keys)
    run([*command, "--block-network"], folder, **addresses, **keys)  # it does replay, over there
    (folder / "addresses.json").write_text(json.dumps(addresses))
    return folder


@pytest.fixture(scope="module")
def moved(recorded: Path) -> Path:
    """The steps of the guide: import, and another marker."""
    cassettes = {path: path.read_bytes() for path in recorded.rglob("*.yaml")}
    assert len(cassettes) == 4
    assert any(KEY.encode() in data for data in cassettes.values())
    addresses = json.loads((recorded / "addresses.json").read_text())  # whose servers these are
    command: list[str | Path] = [PROGRAM, "import", "tests/cassettes", "--store", "tests/llm", "--json"]
    printed = run(command, recorded, **addresses)
    report = json.loads(printed)

    assert (report["cassettes"], report["not_converted"]) == (4, [])
    assert report["answers"] + report["exchanges"] + report["repeated"] == report["interactions"]
    assert {path: path.read_bytes() for path in recorded.rglob("*.yaml")} == cassettes
    assert KEY.encode() not in b"".join(
        path.read_bytes() for path in (recorded / "tests/llm").rglob("*") if path.is_file()
    )
    run([PROGRAM, "verify", "tests/llm", "--strict"], recorded)
    for path in cassettes:
        path.unlink()
    suite = recorded / "tests/test_models.py"
    suite.write_text(suite.read_text().replace("@pytest.mark.vcr", "@pytest.mark.llm_replay"))
    return recorded


def test_the_suite_runs_behind_the_gateway(moved: Path) -> None:
    """In any language it would be the same: the command, behind ``replay --``."""
    replay: list[str | Path] = [PROGRAM, "replay", "--store", "tests/llm", "--fail-on", "miss", "--json"]
    plain = ["-p", "no:cacheprovider", "-p", "no:cortex_replay", "-W", "ignore"]
    printed = run([*replay, "--", sys.executable, "-m", "pytest", "-q", *plain], moved)
    ledger = json.loads(printed.splitlines()[-1])

    assert "4 passed" in printed
    assert (ledger["hits"], ledger["live"]) == (4, 0)


@pytest.mark.skipif(
    not any(entry.value.startswith("cortex_replay") for entry in metadata.entry_points(group="pytest11")),
    reason="the plugin is not installed",
)
def test_the_suite_runs_with_the_plugin(moved: Path) -> None:
    """No key, no server, no pytest-recording."""
    addresses = json.loads((moved / "addresses.json").read_text())
    (moved / "pytest.ini").write_text("[pytest]\nllm_store = tests/llm\n")
    printed = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        moved,
        **addresses,
        ANTHROPIC_API_KEY="dummy",
        OPENAI_API_KEY="dummy",
    )

    assert "4 passed" in printed
    assert len(Store.open(moved / "tests/llm")) == 3
