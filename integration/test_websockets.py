"""Programs with real clients that speak WebSockets, behind ``record`` and ``replay``.

Nobody runs OpenAI's API here: behind the gateway is a scripted server that follows its documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from integration.agents.install import program
from integration.clients.install import node_client
from integration.gateway_clients import KEY
from tests.servers.websockets import SocketUpstream, socket_upstream

_KEPT: Final = ("PATH", "SYSTEMROOT", "TMPDIR", "LANG")
_PYTHON: Final = """
import json, warnings
warnings.simplefilter("ignore")
from openai import OpenAI

seen = []
with OpenAI() as client:
    with client.responses.connect() as connection:
        before = None
        for said in ("one", "two"):
            more = {} if before is None else {"previous_response_id": before}
            connection.response.create(model="m", input=said, **more)
            for event in connection:
                seen.append(event.to_dict())
                if event.type == "response.completed":
                    before = event.response.id
                    break
    with client.realtime.connect(model="m") as connection:
        connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        connection.response.create()
        for event in connection:
            seen.append(event.to_dict())
            if event.type == "response.done":
                break
print(json.dumps(seen))
"""


@pytest.fixture
def upstream() -> Iterator[SocketUpstream]:
    with socket_upstream(KEY) as serving:
        yield serving


def run(mode: str, command: Sequence[str], folder: Path, upstream: SocketUpstream | None = None) -> Any:
    """A command behind a gateway: what it printed, and the ledger."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # Codex keeps its state at home, and makes helpers there unless that is a temporary folder.
    environment = kept | {"HOME": os.fspath(folder), "CODEX_HOME": os.fspath(folder)}
    if upstream is not None:
        environment |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
    program = [sys.executable, "-m", "cortex_replay", mode, "--store", "llm", "--report", "report.json", "--"]
    done = subprocess.run(
        [*program, *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("client", ["python", "node-responses", "node-realtime"])
def test_sdks_are_replayed_to_the_byte(client: str, tmp_path: Path, upstream: SocketUpstream) -> None:
    command = [sys.executable, "-c", _PYTHON]
    if client != "python":
        command = node_client(f"{client.removeprefix('node-')}_socket")
    recorded, ledger = run("record", command, tmp_path, upstream)
    assert ledger["recorded"] == {"python": 3, "node-responses": 2, "node-realtime": 1}[client]
    opened = len(upstream.openings)
    for _ in range(3):
        replayed, ledger = run("replay", command, tmp_path)
        assert replayed == recorded
        assert (ledger["missed"], ledger["live"]) == (0, 0)
    assert len(upstream.openings) == opened
    stored = [path for path in (tmp_path / "llm").rglob("*") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in stored)


@pytest.fixture(scope="session")
def codex() -> str:
    return os.fspath(program("codex"))


def test_codex_speaks_over_a_web_socket(codex: str, tmp_path: Path, upstream: SocketUpstream) -> None:
    """It opens one before anything else; where it is refused in another way than by 426, it stalls."""
    script = (
        f"CODEX_API_KEY=$OPENAI_API_KEY {codex} exec --skip-git-repo-check -m gpt-5.5 "
        '-c openai_base_url="\\"$OPENAI_BASE_URL\\"" "Say hello"'
    )
    command = ["sh", "-c", script]
    recorded, ledger = run("record", command, tmp_path, upstream)
    assert "Say hello" in recorded
    assert ledger["recorded"] == len(upstream.received) >= 1
    assert [path for path, _ in upstream.openings] == ["/v1/responses"]
    replayed, ledger = run("replay", command, tmp_path)
    assert replayed == recorded
    assert (ledger["missed"], ledger["live"]) == (0, 0)


_MARKED: Final = """
import pytest
from openai import OpenAI

@pytest.mark.filterwarnings("ignore")
@pytest.mark.llm_replay
def test_both(llm_gateway):
    with OpenAI() as client, client.realtime.connect(model="m") as session:
        assert session.recv().type == "session.created"
        session.session.update(session={"type": "realtime", "instructions": "Be brief."})
        assert session.recv().type == "session.updated"
    with OpenAI() as client, client.responses.connect() as connection:
        connection.response.create(model="m", input="hello")
        kinds = [event.type for event, _ in zip(connection, range(3))]
        while connection.recv().type != "response.completed":
            pass
    assert kinds[0] == "response.created"
"""


def test_a_marked_test_holds_both_by_its_gateway(tmp_path: Path, upstream: SocketUpstream) -> None:
    (tmp_path / "test_both.py").write_text(_MARKED)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
    for mode, environment in (("once", kept | keys), ("replay", kept)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--llm-mode", mode, "--llm-store", "llm"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert {"once": "2 recorded", "replay": "2 hits, 0 misses"}[mode] in done.stdout
    assert len(upstream.openings) == 2
