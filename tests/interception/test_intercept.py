"""Interception without a plugin: a block, for unittest and notebooks."""

from __future__ import annotations

import asyncio
import http.client
import importlib
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest
import requests
import urllib3

import cortex_replay
from cortex_replay import InvalidRequest, LlmAdapter, LlmRequest, LlmResponse, Store
from cortex_replay.interception import bypassing
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.upstream import REAL_KEY

QUESTION: Any = [{"role": "user", "content": "Hello there."}]


def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server and no key any more."""
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "none")


def ask_everybody() -> list[Any]:
    with anthropic.Anthropic(max_retries=0) as claude, openai.OpenAI(max_retries=0) as chat:
        found: list[Any] = [claude.messages.create(model="m", max_tokens=5, messages=QUESTION).to_json()]
        with claude.messages.stream(model="m", max_tokens=6, messages=QUESTION) as stream:
            found.append(list(stream.text_stream))
        found.append(chat.chat.completions.create(model="m", messages=QUESTION).to_json())
        asked: Any = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 7}
        events: Any = chat.chat.completions.create(model="m", messages=QUESTION, **asked)
        found.append([event.to_json() for event in events])
        found.append([model.id for model in chat.models.list()])
        found.append([model.id for model in claude.models.list()])

    async def several() -> list[Any]:
        async with anthropic.AsyncAnthropic(max_retries=0) as client:
            calls = [
                client.messages.create(model="m", max_tokens=20 + i, messages=QUESTION) for i in range(4)
            ]
            answers = [answer.to_json() for answer in await asyncio.gather(*calls)]
            async with client.messages.stream(model="m", max_tokens=60, messages=QUESTION) as stream:
                return [*answers, [text async for text in stream.text_stream]]

    found.append(asyncio.run(several()))
    host = ollama.Client()
    found.append(host.chat("m", QUESTION).message.content)
    found.append(
        [chunk.message.content for chunk in host.chat("m", QUESTION, options={"num_predict": 3}, stream=True)]
    )
    host._client.close()
    return found


def test_sdks_are_recorded_and_replayed_in_process(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cortex_replay.intercept(tmp_path / "llm", "once") as recording:
        first = ask_everybody()
    ledger = recording.engine.run.ledger
    assert (ledger.refused, ledger.recorded) == ([], recording.calls)
    gone(monkeypatch)
    with cortex_replay.intercept(tmp_path / "llm", "replay") as replaying:
        assert ask_everybody() == first
    assert (replaying.engine.run.ledger.hits, replaying.engine.run.ledger.misses) == (recording.calls, [])
    assert len(provider.received) == recording.calls


def test_what_a_block_recorded_is_kept_if_it_went_well(provider: FakeProvider, tmp_path: Path) -> None:
    def ask_and_fail() -> None:
        with anthropic.Anthropic() as client:
            client.messages.create(model="m", max_tokens=5, messages=QUESTION)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), cortex_replay.intercept(tmp_path, "once"):
        ask_and_fail()
    assert len(Store.open_or_create(tmp_path)) == 0
    with pytest.raises(ZeroDivisionError), cortex_replay.intercept(tmp_path, "once", keep_failed=True):
        ask_and_fail()
    assert len(Store.open(tmp_path)) == 1


REPLACED: list[tuple[Any, str]] = [
    (httpx.HTTPTransport, "handle_request"),
    (httpx.AsyncHTTPTransport, "handle_async_request"),
    (httpx2.HTTPTransport, "handle_request"),
    (httpx2.AsyncHTTPTransport, "handle_async_request"),
    (urllib3.HTTPConnectionPool, "_make_request"),
    (urllib3.HTTPSConnectionPool, "_prepare_proxy"),
    (http.client.HTTPConnection, "endheaders"),
    (aiohttp.BaseConnector, "connect"),
]
UNTOUCHED: list[Any] = [
    *(httpx.Client, httpx.AsyncClient, requests.Session, requests.adapters.HTTPAdapter, requests.Response),
    *(urllib3.HTTPResponse, urllib3.PoolManager, urllib3.connection.HTTPConnection),
    *(http.client.HTTPSConnection, http.client.HTTPResponse, urllib.request.OpenerDirector),
    *(aiohttp.ClientSession, aiohttp.TCPConnector, aiohttp.ClientRequest, aiohttp.ClientResponse),
]


def test_nothing_stays_and_the_innermost_has_the_say(tmp_path: Path) -> None:
    owners = dict.fromkeys([*(owner for owner, _ in REPLACED), *UNTOUCHED])
    before = {owner: dict(vars(owner)) for owner in owners}
    finders = list(sys.meta_path)
    one, two = tmp_path / "one", tmp_path / "two"
    Store.create(one)
    Store.create(two)
    with cortex_replay.intercept(one, "replay") as outer, cortex_replay.intercept(two, "replay") as inner:
        changed = [
            (owner, name)
            for owner in owners
            for name, now in vars(owner).items()
            if now is not before[owner][name]
        ]
        assert changed == REPLACED
        assert httpx.post("https://api.anthropic.com/v1/messages", json={}).status_code == 400
        assert (outer.calls, inner.calls) == (0, 1)
    assert {owner: dict(vars(owner)) for owner in owners} == before
    assert sys.meta_path == finders


IMPORTED_LATER = """
import sys, cortex_replay
libraries = {"requests", "urllib3", "aiohttp", "httpx2"}
with cortex_replay.intercept(sys.argv[1], "replay") as interception:
    assert not libraries & sys.modules.keys(), libraries & sys.modules.keys()
    import aiohttp, asyncio, requests
    statuses = [requests.get("https://api.openai.com/v1/models").status_code]
    async def ask():
        async with aiohttp.request("GET", "https://api.openai.com/v1/models") as answer:
            return answer.status
    statuses.append(asyncio.run(ask()))
print(statuses, interception.calls, aiohttp.connector.__loader__.__class__.__name__)
"""


def test_a_library_is_not_imported_for_its_sake_and_may_be_imported_later(tmp_path: Path) -> None:
    Store.create(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED_LATER, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[424, 424] 2 SourceFileLoader\n", done.stderr


def test_urllib_is_told_of_a_miss(tmp_path: Path) -> None:
    Store.create(tmp_path)
    with cortex_replay.intercept(tmp_path, "replay"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen("https://api.openai.com/v1/models")
        with caught.value as answer:
            assert answer.status == 424
            assert b"nothing is recorded for GET /v1/models" in answer.read()


def test_a_bypass_is_for_this_task_only(provider: FakeProvider, tmp_path: Path) -> None:
    Store.create(tmp_path)
    url = f"{provider.url}/v1/models"
    with cortex_replay.intercept(tmp_path, "replay"):
        with bypassing():
            assert httpx.get(url, headers={"x-api-key": REAL_KEY}).status_code == 200
            statuses: list[int] = []
            thread = threading.Thread(target=lambda: statuses.append(httpx.get(url).status_code))
            thread.start()
            thread.join()
        assert statuses == [424]


def test_a_mode_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest), cortex_replay.intercept(tmp_path, "sometimes"):  # type: ignore[arg-type]
        pass


ASK_IN_BOTH = """
import os, signal, sys, httpx, cortex_replay
from cortex_replay.testing import EchoAdapter

def ask(question):
    message = {"role": "user", "content": question}
    body = {"model": "m", "max_tokens": 5, "messages": [message]}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    status = httpx.post(url, json=body, timeout=60).status_code
    return status, EchoAdapter().sync.complete(cortex_replay.LlmRequest("m", "", question)).text

with cortex_replay.intercept(sys.argv[1], "once") as recording:
    assert ask("parent") == (200, "parent")
    if os.fork() == 0:
        signal.alarm(20)  # or it would outlive a failed test
        print(*ask("child"), recording.engine.run.ledger.recorded, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_child_asks_through_both_synchronous_faces(provider: FakeProvider, tmp_path: Path) -> None:
    """The threads that the parent asked through do not exist there."""
    done = subprocess.run(
        [sys.executable, "-c", ASK_IN_BOTH, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "200 child 2\n"), done.stderr
    assert len(provider.received) == 2


def test_a_synchronous_client_inside_a_synchronous_face_is_answered(
    provider: FakeProvider, tmp_path: Path
) -> None:
    """As in an adapter of somebody's that blocks: its loop waits, so the answer comes from another."""

    class Blocking(LlmAdapter):
        adapter_id = "blocking"

        async def complete(self, request: LlmRequest) -> LlmResponse:
            with anthropic.Anthropic(max_retries=0, timeout=60) as client:
                answer = client.messages.create(model="m", max_tokens=5, messages=QUESTION)
            return LlmResponse(answer.id, None, request.model, None, "")

    with cortex_replay.intercept(tmp_path, "once") as recording:
        ask = partial(Blocking().sync.complete, LlmRequest("m", "", "Hi."))
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(20)
    assert (recording.engine.run.ledger.recorded, len(provider.received)) == (1, 1)


def test_each_block_is_a_run_of_its_own_also_over_one_open_store(
    tmp_path: Path, provider: FakeProvider
) -> None:
    """Two blocks that record ask twice: the first one's answers are not claimed for the second."""
    store = Store.create(tmp_path)
    for _ in range(2):
        with cortex_replay.intercept(store, "record"), anthropic.Anthropic(max_retries=0) as claude:
            claude.messages.create(model="m", max_tokens=5, messages=QUESTION)

    assert len(provider.received) == 2


def test_a_library_that_is_imported_anew_is_intercepted(tmp_path: Path) -> None:
    """As by a test that forgets modules, pytester's among them."""
    with cortex_replay.intercept(tmp_path, "once"):
        first = sys.modules["httpx2"]
    forgotten = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("httpx2")}
    try:
        with cortex_replay.intercept(tmp_path, "once"):
            again = importlib.import_module("httpx2")
            assert again is not first
            assert "cortex_replay" in again.HTTPTransport.handle_request.__module__
    finally:
        sys.modules.update(forgotten)
