"""The client, against a server of the standard library."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cortex_replay import errors
from cortex_replay.admin import (
    METHOD,
    AdminClient,
    AdminError,
    Code,
    LlmChatMessage,
    LlmCompleteResponse,
    LlmUsage,
)
from cortex_replay.admin.callers import Callers
from cortex_replay.admin.rpc import RpcDispatcher
from cortex_replay.config import CallerSettings, Settings
from tests.admin.conftest import SETTINGS, Noting, dispatcher_of

TOKEN = "token-of-the-build-server"


class Server(ThreadingHTTPServer):
    """Answers with a dispatcher, or with what it is told to."""

    dispatcher: RpcDispatcher
    callers: Callers
    answer: tuple[int, bytes] | None = None
    stall: threading.Event | None = None
    seen: list[tuple[str, str]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, self.headers["content-type"]))
        status, told = 200, b""
        if self.server.stall is not None:
            self.server.stall.wait(10)
            return
        caller = self.server.callers.by_authorization(self.headers.get("authorization", ""))
        if self.server.answer is not None:
            status, told = self.server.answer
        elif caller is None:
            status, told = 401, b"no"
        else:
            told = asyncio.run(self.server.dispatcher.handle(body, caller)) or b""
        self.send_response(status)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nothing."""


@contextmanager
def running(dispatcher: RpcDispatcher | None = None, **facts: Any) -> Iterator[tuple[Server, str]]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.dispatcher = dispatcher or dispatcher_of(Noting())
        granted = CallerSettings(token_env=("T",), grants=("llm_complete",))
        server.callers = Callers(Settings(callers={"ci": granted}), {"T": TOKEN})
        server.seen = []
        for name, value in facts.items():
            setattr(server, name, value)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_call() -> None:
    """With everything that can be said."""
    adapter = Noting()
    with running(dispatcher_of(adapter)) as (server, url):
        client = AdminClient(url, f"{TOKEN}\n")
        output = client.complete("mine", "m-1", "Hello!")
        client.complete(
            "mine",
            "m-2",
            [LlmChatMessage("user", "a"), {"role": "assistant", "content": "b"}],
            max_tokens=5,
            temperature=0.7,
            system_prompt="Be brief.",
        )

    assert output == LlmCompleteResponse("Hi.", "m-1-served", LlmUsage())
    first, second = adapter.asked
    assert first.messages[0].content == "Hello!"
    assert (second.system, second.temperature, second.max_tokens) == ("Be brief.", 0.7, 5)
    assert server.seen == [("/rpc", "application/json")] * 2


def test_a_path_of_its_own() -> None:
    """As a gateway with a token at its door has it."""
    with running() as (server, url):
        AdminClient(f"{url}/t-door/rpc", TOKEN).complete("mine", "m-1", "Hello!")

    assert server.seen[0][0] == "/t-door/rpc"


def test_an_error_of_the_server() -> None:
    """Has a code and data."""
    with running() as (_, url), pytest.raises(AdminError) as caught:
        AdminClient(url, TOKEN).complete("mine", "m-3", "Hello!")

    assert caught.value.code == Code.INVALID_PARAMS
    assert caught.value.data == {"field": "model"}
    assert str(caught.value).startswith("admin: -32602 Invalid params: model: ")


def test_an_argument_that_cannot_be_sent() -> None:
    """Does not leave."""
    with running() as (server, url), pytest.raises(errors.InvalidRequest, match="max_tokens"):
        AdminClient(url, TOKEN).complete("mine", "m-1", "Hello!", max_tokens=-1)

    assert server.seen == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (502, b"<html>", errors.Upstream),
        (302, b"", errors.Upstream),
        (200, b"<html>", errors.ResponseParse),
        (200, b"[]", errors.ResponseParse),
        (200, b'{"jsonrpc":"2.0","id":1}', errors.ResponseParse),
        (200, b'{"jsonrpc":"2.0","id":1,"error":3}', errors.ResponseParse),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}', errors.ResponseParse),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{"content":"x"}}', errors.ResponseParse),
        (403, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}', AdminError),
    ],
)
def test_an_answer_that_is_none(status: int, body: bytes, kind: type[Exception]) -> None:
    """Each has its error."""
    with running(answer=(status, body)) as (_, url), pytest.raises(kind):
        AdminClient(url, TOKEN).complete("mine", "m-1", "Hello!")


def test_a_wrong_token() -> None:
    with running() as (_, url), pytest.raises(errors.Upstream) as caught:
        AdminClient(url, "another-token-than-that").complete("mine", "m-1", "Hello!")

    assert caught.value.status == 401


def test_nobody_there() -> None:
    """Or somebody who says nothing."""
    with running() as (_, url):
        pass
    with pytest.raises(errors.Transport):
        AdminClient(url, TOKEN).complete("mine", "m-1", "Hello!")
    stall = threading.Event()
    with running(stall=stall) as (_, url):
        with pytest.raises(errors.Timeout):
            AdminClient(url, TOKEN, timeout_s=0.05).complete("mine", "m-1", "Hello!")
        stall.set()


@pytest.mark.parametrize(
    ("url", "token", "field"),
    [
        ("127.0.0.1:1", TOKEN, "url"),
        ("ftp://a", TOKEN, "url"),
        ("http://", TOKEN, "url"),
        ("http://me:pw@a", TOKEN, "url"),
        ("http://a/?token=x", TOKEN, "url"),
        ("http://a:99999", TOKEN, "url"),
        ("http://a/b c", TOKEN, "url"),
        (None, TOKEN, "url"),
        ("http://a", "", "token"),
        ("http://a", "two words", "token"),
        ("http://a", "line\r\nbreak", "token"),
        ("http://a", None, "token"),
    ],
)
def test_what_cannot_be_a_server_or_a_token(url: Any, token: Any, field: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        AdminClient(url, token)

    assert caught.value.field == field


def test_the_token_does_not_show() -> None:
    client = AdminClient("http://a", TOKEN)

    assert TOKEN not in repr(client)
    assert TOKEN not in repr(vars(client))


def test_what_is_sent() -> None:
    """A call of the method, by name."""
    sent: list[Any] = []

    class Noted(RpcDispatcher):
        async def handle(self, data: bytes, caller: Any) -> bytes | None:
            sent.append(json.loads(data))
            return await super().handle(data, caller)

    with running(Noted(dispatcher_of(Noting(), SETTINGS)._methods)) as (_, url):
        AdminClient(url, TOKEN).complete("mine", "m-1", "é", temperature=1)

    messages = [{"role": "user", "content": "é"}]
    params = {"provider": "mine", "model": "m-1", "messages": messages, "temperature": 1.0}
    assert sent == [{"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params}]
