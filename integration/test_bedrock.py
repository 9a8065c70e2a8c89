"""Bedrock's own clients behind the gateway and in process, against a server that checks their signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from integration import install
from integration.gateway_clients import behind
from tests.adapters.fake_provider import Exchange, FakeProvider, Received, serving_in_thread
from tests.gateway.upstream import answer

ROOT: Final = Path(__file__).resolve().parent.parent
PROGRAM: Final = ROOT / "integration/clients/python/bedrock_client.py"
PACKAGES: Final = ("boto3==1.44.0", "anthropic==2.8.0", "pydantic-ai-slim[bedrock]==2.62.0")
SECRET: Final = "sEcretOfTheUserWhoSigns0123456789abcdefg"
REGION: Final = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-1"}
KEYS: Final = {"AWS_ACCESS_KEY_ID": "AKIAUSER", "AWS_SECRET_ACCESS_KEY": SECRET, **REGION}
ROUNDS: Final = 20
SIGNED: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIAUSER/(\d{8}/([a-z0-9-]+)/bedrock/aws4_request), ?"
    r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})"
)


def is_signed(received: Received) -> bool:
    """Whether a request has the user's signature, worked out from what has arrived and nothing else."""
    found = SIGNED.fullmatch(received.headers.get("authorization", ""))
    if found is None:
        return False
    scope, _, names, signature = found.groups()
    path, _, query = received.path.partition("?")
    lines = [received.method, quote(path, safe="/-_.~"), query]
    lines += [f"{name}:{received.headers[name]}" for name in names.split(";")]
    lines += ["", names, hashlib.sha256(received.body).hexdigest()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", received.headers["x-amz-date"], scope, digest])
    key = b"AWS4" + SECRET.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex() == signature


async def amazon(exchange: Exchange) -> None:
    if not is_signed(exchange.received):
        await exchange.whole(b'{"message": "The request signature does not match."}', 403)
        return
    exchange.received.headers.pop("authorization")
    await answer(exchange)


@pytest.fixture
def server() -> Iterator[FakeProvider]:
    with serving_in_thread(amazon) as provider:
        yield provider


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with the clients and with this project."""

    def fill(folder: Path) -> None:
        install.completed([sys.executable, "-m", "venv", folder])
        options = ("--disable-pip-version-check", *PACKAGES, "--editable", ROOT)
        install.completed([folder / "bin/python", "-m", "pip", "install", *options])

    name = hashlib.sha256("\0".join([platform.python_version(), *PACKAGES]).encode()).hexdigest()[:16]
    return install.once(install.BENCH / "clients" / f"bedrock-{name}", fill) / "bin/python"


def test_every_client_is_recorded_and_replayed_through_the_gateway(
    server: FakeProvider, python: Path, tmp_path: Path
) -> None:
    """Signed anew with the user's credentials while it is recorded; 20 of 20 replays are equal."""
    store, command = tmp_path / "store", [os.fspath(python), os.fspath(PROGRAM)]
    at = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.url}

    recorded = behind("record", store, command, {**KEYS, **at})
    replayed = behind("replay", store, command, {**REGION, "ROUNDS": str(ROUNDS)})

    assert (recorded.status, replayed.status) == (0, 0), recorded.told + replayed.told
    assert recorded.ledger["recorded"] == len(server.received) == 13
    assert replayed.steps == recorded.steps * ROUNDS
    assert (replayed.ledger["live"], len(replayed.ledger["misses"])) == (0, 0)
    assert SECRET not in "".join(path.read_text() for path in store.rglob("*") if path.is_file())


IN_PROCESS: Final = """
import json, os, sys
import cortex_replay
from anthropic import AnthropicBedrock, APIStatusError

def ask(text):
    client = AnthropicBedrock(base_url=sys.argv[1])
    messages = [{"role": "user", "content": text}]
    model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
    message = client.messages.create(model=model, max_tokens=64, messages=messages)
    with client.messages.stream(model=model, max_tokens=65, messages=messages) as stream:
        return [message.to_dict(), stream.get_final_message().to_dict()]

with cortex_replay.intercept(sys.argv[2], sys.argv[3]):
    print(json.dumps(ask("Hello.")))
    if sys.argv[3] == "replay":
        try:
            ask("Hallo.")
        except APIStatusError as error:
            print(error)
"""


def test_a_client_s_own_signature_reaches_the_server_from_its_process(
    server: FakeProvider, python: Path, tmp_path: Path
) -> None:
    def run(mode: str) -> list[str]:
        command: list[Any] = [python, "-c", IN_PROCESS, server.url, tmp_path / "store", mode]
        done = subprocess.run(command, env=os.environ | KEYS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    (live,) = run("once")
    (again, *miss) = run("replay")

    assert json.loads(again) == json.loads(live)
    assert len(server.received) == 2
    assert "nothing is recorded" in "".join(miss)
