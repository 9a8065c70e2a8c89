"""What a gateway loads before its first answer: whoever starts one waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_replay import Fixture, Store
from cortex_replay.wire import WIRES

_BODY = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
_PROGRAM = """
import json, socket, sys
from pathlib import Path
from cortex_replay.cli.runs import open_run
from cortex_replay.cli.serve import serve_command
from cortex_replay.gateway import Gateway
from cortex_replay.run.mcp.desk import Desk
from cortex_replay.run.mcp.stdio.socket import RunSocket

run = open_run(Path(sys.argv[1]), {}, default="replay", how_to_record="")
body = sys.argv[2].encode()
with Gateway(run).running() as gateway, RunSocket.open(Desk(run)):
    head = f"POST /v1/chat/completions HTTP/1.0\\r\\nhost: 127.0.0.1:{gateway.port}\\r\\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(f"{head}content-length: {len(body)}\\r\\n\\r\\n".encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    loaded = sorted(sys.modules)
print(json.dumps([answer.decode(), loaded]))
"""
_UNNEEDED = (
    "cortex_replay.adapters",
    "cortex_replay.admin",
    "cortex_replay.engine.http.recording",
    "cortex_replay.engine.mcp.session",
    "cortex_replay.faults.replies",
    "cortex_replay.gateway.mcp.door",
    "cortex_replay.gateway.proxy",
    "cortex_replay.gateway.websockets",
    "cortex_replay.history",
    "cortex_replay.interception",
    "cortex_replay.misses",
    "cortex_replay.prompt",
    "cortex_replay.wire.anthropic",
    "cortex_replay.wire.bedrock",
    "cortex_replay.wire.gemini",
    "cryptography",
    "http.client",
    "httpx",
    "jsonschema_rs",
    "obstore",
    "urllib.request",
    "websockets",
)
"""What only a miss, a recording, a fault, an MCP client, a proxy, a WebSocket or another wire needs."""
_MOST_OWN = 246
"""Modules of ours; each takes about a millisecond. Load what an answer can do without with its first use."""


@pytest.fixture(scope="module")
def first_answer(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The first answer of a gateway in a process of its own, and the modules that were loaded by then."""
    root = tmp_path_factory.mktemp("store")
    store = Store.create(root)
    store.add(Fixture.of(WIRES["openai-chat"].lift(_BODY), "In Oslo."))
    store.commit()
    command = [sys.executable, "-c", _PROGRAM, str(root), json.dumps(_BODY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(root).parent)
    answer, loaded = json.loads(done.stdout)
    return answer, loaded


def test_the_first_answer_needs_nothing_that_it_has_no_use_for(first_answer: tuple[str, list[str]]) -> None:
    answer, loaded = first_answer

    assert "In Oslo." in answer
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{one}." for one in _UNNEEDED))] == []


def test_the_first_answer_needs_few_modules(first_answer: tuple[str, list[str]]) -> None:
    """Whichever they are: a new import at the top of a module brings others along."""
    assert len([name for name in first_answer[1] if name.startswith("cortex_replay")]) <= _MOST_OWN
