"""A provider that repeats a key: the client may have it back, but nothing that is kept or shown holds it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from cortex_replay import LlmError, LlmRequest, Store
from cortex_replay.adapters import LlmAdapter
from cortex_replay.adapters.openai_compat import OpenAICompatAdapter
from cortex_replay.admin import METHOD
from cortex_replay.engine.ledger import Ledger
from cortex_replay.redact.redactor import Redactor
from tests import warm
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.gateway.conftest import gateway_over
from tests.gateway.upstream import REAL_KEY
from tests.redact.kinds import ALNUM, some

BROUGHT = "brought-by-the-client-" + some(Random(7), ALNUM, 12)

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "percent twice": lambda key: quote("".join(f"%{ord(c):02X}" for c in key)),
    "base64": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "unicode": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "hex": lambda key: key.encode().hex(),
}


def is_in(key: str, text: str) -> bool:
    """Whether anybody could read the key out of a text: by looking, or by decoding what stands in it."""
    readings = {key, key.encode().hex(), "".join(f"%{ord(c):02X}" for c in key)}
    readings |= {"".join(f"%25{ord(c):02X}" for c in key), "".join(f"u{ord(c):04x}" for c in key)}
    readings.add("".join(f"\\u{ord(c):04x}" for c in key))
    readings.add("".join(f"\\\\u{ord(c):04x}" for c in key))
    encoded = base64.b64encode(f"user:{key}".encode()).decode()
    return any(reading in text for reading in [*readings, encoded[8:-4]])


def error_body(echo: str) -> bytes:
    return json.dumps({"error": {"message": f"Incorrect API key provided: {echo}", "type": echo}}).encode()


def chat_stream(echo: str) -> list[bytes]:
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]}
    return [f"data: {json.dumps(first)}\n\n".encode(), b"data: " + error_body(echo) + b"\n\n"]


SHAPES = ("status", "error in a stream", "error in a 200", "nonsense")
WAYS = [(shape, encoding) for shape in SHAPES for encoding in ENCODINGS]


async def echo_key(exchange: Exchange) -> None:
    """Repeat whatever key was given, in the way that the prompt names."""
    given = exchange.received.headers
    key = given.get("x-api-key") or given.get("authorization", "").rpartition(" ")[2]
    shape, encoding = exchange.received.json["messages"][0]["content"].split("|")
    echo = ENCODINGS[encoding](key)
    if shape == "status":
        await exchange.whole(error_body(echo), 401, request_id=echo)
    elif shape == "error in a 200":
        await exchange.whole(error_body(echo))
    elif shape == "nonsense":
        await exchange.whole(f"{echo} is no JSON".encode(), 200, f"text/{echo[:40]}")
    else:
        await exchange.start_stream()
        for piece in chat_stream(echo):
            await exchange.piece(piece)
        await exchange.end_stream()


def prompt(shape: str, encoding: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{shape}|{encoding}"}]


def chat(shape: str, encoding: str) -> dict[str, Any]:
    return {"model": "m", "messages": prompt(shape, encoding), "stream": shape == "error in a stream"}


def kept(root: Path) -> str:
    return "\n".join(p.read_text("utf-8", "replace") for p in sorted(root.rglob("*")) if p.is_file())


@pytest.mark.parametrize("whose", ["ours", "brought"])
def test_the_ledger_and_the_store_hold_no_echo(tmp_path: Path, whose: str) -> None:
    """Neither of the key that the gateway puts in, nor of one that a client brings."""
    key = REAL_KEY if whose == "ours" else BROUGHT
    headers = {} if whose == "ours" else {"authorization": f"Bearer {BROUGHT}"}
    with serving_in_thread(echo_key) as provider:
        url = provider.url
        servers = None if whose == "ours" else {"openai": f"{url}/v1"}
        with (
            gateway_over(tmp_path / "s", "once", url, record_failures=True, servers=servers) as gateway,
            httpx.Client(headers=headers, timeout=60) as client,
        ):
            address = f"{gateway.url()}/openai/v1/chat/completions"
            for way in WAYS:
                assert is_in(key, client.post(address, json=chat(*way)).text), way  # what is its own
            told = client.get(f"{gateway.url()}/-/ledger")

    assert told.json()["failed"] == len(WAYS)
    assert not is_in(key, told.text)
    assert not is_in(key, kept(tmp_path))


def test_errors_hold_no_echo(caplog: pytest.LogCaptureFixture) -> None:
    """What an adapter raises, its notes and arguments among it; and what was logged meanwhile, at DEBUG."""
    caplog.set_level(logging.DEBUG)

    async def error_of(llm: LlmAdapter, shape: str, encoding: str) -> LlmError:
        request = LlmRequest("m", messages=prompt(shape, encoding))
        try:
            if shape == "error in a stream":
                async for _ in llm.stream(request):
                    pass
            else:
                await llm.complete(request)
        except LlmError as error:
            return error
        raise AssertionError(shape)

    async def ask_all(url: str) -> list[LlmError]:
        async with OpenAICompatAdapter(f"{url}/v1", api_key=REAL_KEY, max_retries=0) as llm:
            return [await error_of(llm, *way) for way in WAYS]

    with serving_in_thread(echo_key) as provider:
        errors = asyncio.run(ask_all(provider.url))

    for way, error in zip(WAYS, errors, strict=True):
        said = f"{error} {error!r} {error.args} {getattr(error, '__notes__', '')} {error.__context__!r}"
        assert not is_in(REAL_KEY, said), way
    assert not is_in(REAL_KEY, caplog.text)


def test_the_client_of_http_logs_no_key(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """httpx logs URLs with their queries, httpcore the headers of answers."""
    caplog.set_level(logging.DEBUG)

    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"{}", x_echo=BROUGHT, request_id=REAL_KEY)

    with serving_in_thread(script) as provider, gateway_over(tmp_path / "s", "live", provider.url) as gateway:
        httpx.get(f"{gateway.url()}/openai/v1/models?q={BROUGHT}", headers={"x-api-key": BROUGHT}, timeout=60)
        caplog.handler.flush()
    of_calls = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("httpcore") and "receive_response_headers.complete" in record.getMessage()
    ]

    assert of_calls
    assert REAL_KEY not in caplog.text


ASK = """
import json, os, sys, urllib.request, urllib.error
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for body in json.loads(sys.argv[1]):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        opener.open(request).read()
    except urllib.error.URLError:
        pass
"""


def shell(tmp_path: Path, url: str) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": REAL_KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


def test_a_command_shows_no_echo(tmp_path: Path) -> None:
    """``record -- COMMAND``: stdout, stderr, the report, the summary of a job, the store."""
    bodies = [chat(*way) for way in WAYS if way[1] in ("plain", "base64")]
    with serving_in_thread(echo_key) as provider:
        done = warm.run(
            [
                *("record", "--json", "--report", "report.json", "--store", "s"),
                *("--", sys.executable, "-c", ASK, json.dumps(bodies)),
            ],
            cwd=tmp_path,
            env=shell(tmp_path, provider.url),
            text=True,
        )

    assert json.loads((tmp_path / "report.json").read_text())["failed"] == len(bodies)
    assert not is_in(REAL_KEY, done.stdout + done.stderr)
    assert not is_in(REAL_KEY, kept(tmp_path))


@pytest.mark.parametrize(
    ("shape", "command", "as_json"),
    [
        ("status", "batch", True),
        ("error in a stream", "record", True),
        ("error in a stream", "record", False),
        ("answer", "record", True),
        ("answer in pieces", "record", False),
    ],
)
def test_recording_a_prompt_shows_no_echo(tmp_path: Path, shape: str, command: str, as_json: bool) -> None:
    """Of an answer, of an error, in one piece or in many."""

    async def script(exchange: Exchange) -> None:
        said = f"your key is {REAL_KEY}, good bye"
        size = 3 if "pieces" in shape else 100
        if shape == "status":
            await exchange.whole(error_body(REAL_KEY), 400)
            return
        pieces = chat_stream(REAL_KEY)
        if "answer" in shape:
            deltas = [said[i : i + size] for i in range(0, len(said), size)]
            events = [{"choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas]
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
        if not exchange.received.json.get("stream"):
            message = {"role": "assistant", "content": said}
            body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            await exchange.whole(json.dumps(body).encode() if "answer" in shape else error_body(REAL_KEY))
            return
        await exchange.start_stream()
        for piece in pieces:
            await exchange.piece(piece)
        await exchange.end_stream()

    (tmp_path / "jobs.jsonl").write_text(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "q"}]}) + "\n"
    )
    asked = ["--model", "m", "--prompt", "q"] if command == "record" else ["jobs.jsonl"]
    with serving_in_thread(script) as provider:
        done = warm.run(
            [
                *(
                    command,
                    "--provider",
                    "openai",
                    "--base-url",
                    f"{provider.url}/v1",
                    "--store",
                    "s",
                ),
                *(["--json"] if as_json else []),
                *asked,
            ],
            cwd=tmp_path,
            env=shell(tmp_path, provider.url),
            text=True,
        )

    assert done.returncode == (0 if "answer" in shape else 1), done.stderr
    assert REAL_KEY not in done.stdout + done.stderr
    assert REAL_KEY not in kept(tmp_path)
    if shape == "answer in pieces":
        assert "| your key is [REDACTED:known-value], good bye" in done.stdout


def test_a_ledger_forgets_a_key_that_is_learned_later() -> None:
    """The echo came first, the client's key afterwards."""
    redactor = Redactor()
    ledger = Ledger(lambda: redactor)
    later = BROUGHT[::-1]  # the process has learned the other one, in another test
    note_everywhere(ledger, later)
    assert repr(ledger).count(later) == 6

    redactor.learn(later)

    assert later not in repr(ledger)
    assert sum(ledger.bypassed.values()) == 1


def test_a_ledger_takes_no_key_that_is_known() -> None:
    ledger = Ledger(lambda: Redactor([BROUGHT]))
    note_everywhere(ledger)

    assert BROUGHT not in repr(ledger)
    assert repr(ledger).count("[REDACTED:known-value]") == 6


def note_everywhere(ledger: Ledger, key: str = BROUGHT) -> None:
    """Put a key into each text of a ledger."""
    ledger.fail(f"status 400: {key}")
    ledger.miss(f"GET /{key}", f"nothing for {quote(key)}")
    ledger.refuse(key)
    ledger.damage(key)
    ledger.bypass(key)


CALLERS = """
[callers.ci]
token_env = "CI_TOKEN"
grants = ["llm_complete"]

[providers.local]
kind = "openai-compat"
base_url = "{url}/v1"
key_env = "LOCAL_KEY"
models = ["m"]
"""


@pytest.mark.parametrize("mode", ["live", "once"])
def test_whoever_calls_the_rpc_gets_no_key(tmp_path: Path, mode: str) -> None:
    """The caller holds no key; the one of the server is not for it, whatever the provider says."""

    async def script(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": f"your key is {REAL_KEY}"}
        body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        await exchange.whole(json.dumps(body).encode())

    params = {"provider": "local", "model": "m", "messages": prompt("status", "plain"), "max_tokens": 9}
    asked = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {**params, "system_prompt": "s"}}
    with serving_in_thread(script) as provider:
        (tmp_path / "cortex-replay.toml").write_text(CALLERS.format(url=provider.url))
        Store.create(tmp_path / "s")
        done = warm.run(
            ["serve", "--stdio", "--caller", "ci", "--mode", mode, "--store", "s"],
            json.dumps(asked) + "\n",
            cwd=tmp_path,
            env={
                **shell(tmp_path, provider.url),
                "LOCAL_KEY": REAL_KEY,
                "CI_TOKEN": "a-token-of-the-caller-ci",
            },
            text=True,
        )

    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["result"]["content"] == "your key is [REDACTED:known-value]", done.stderr
    assert REAL_KEY not in done.stdout + done.stderr
    assert REAL_KEY not in kept(tmp_path)
