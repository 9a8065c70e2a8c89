"""A test's other HTTP: with ``http="all"`` one recorder has it all, and by default it is left alone."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import httpx
import pytest
import requests

from cortex_replay import InvalidRequest, Store, intercept
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import opaque_exchange
from cortex_replay.faults import Fault, Faults
from tests.adapters.fake_provider import Exchange, FakeProvider, Script, serving_in_thread
from tests.gateway.upstream import REAL_KEY, model_server

PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff\xfe"
WITHOUT_ROOTS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loading them takes longer than all the rest."""
COOKIE = "session=c0ffee-is-secret-4711"


class Got(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]
    url: str


Fetch = Callable[..., Got]
SHOWN = ("content-type", "etag", "mcp-session-id", "content-length", "link")


def _shown(headers: Any) -> dict[str, str]:
    return {name: headers[name] for name in SHOWN if name in headers}


def with_requests(method: str, url: str, **options: Any) -> Got:
    answer = requests.request(method, url, timeout=60, allow_redirects=True, **options)
    return Got(answer.status_code, answer.content, _shown(answer.headers), answer.url)


def with_httpx(method: str, url: str, **options: Any) -> Got:
    if "data" in options:
        options["content"] = options.pop("data")
    answer = httpx.request(method, url, follow_redirects=True, verify=WITHOUT_ROOTS, **options)
    return Got(answer.status_code, answer.content, _shown(answer.headers), str(answer.url))


def with_aiohttp(method: str, url: str, **options: Any) -> Got:
    async def main() -> Got:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, allow_redirects=True, **options) as answer,
        ):
            return Got(answer.status, await answer.read(), _shown(answer.headers), str(answer.url))

    return asyncio.run(main())


clients = pytest.mark.parametrize("fetch", [with_requests, with_httpx, with_aiohttp])


def site(elsewhere: str) -> Script:
    """What a test may fetch besides."""

    async def answer(exchange: Exchange) -> None:
        asked = exchange.received
        path = asked.path.partition("?")[0]
        if path == "/picture.png":
            await exchange.head(200, {"content-type": "image/png", "content-length": "11", "etag": '"e"'})
            await exchange.send(b"" if asked.method == "HEAD" else PICTURE)
        elif path == "/moved":
            await exchange.whole(b"moved", 302, location="/picture.png?again")
        elif path == "/away":
            await exchange.whole(b"", 307, location=f"{elsewhere}/echo")
        elif path == "/posted":
            await exchange.whole(b"", 303, location="/echo?after=post")
        elif path == "/echo":
            said = {"method": asked.method, "path": asked.path, "body": asked.body.decode("latin-1")}
            await exchange.whole(
                json.dumps(said).encode(),
                mcp_session_id="s-1",
                set_cookie=COOKIE,
                date="Sun, 15 Nov 2026 00:00:00 GMT",
            )
        else:
            await exchange.whole(b"gone", 410, "text/plain")

    return answer


class Sites(NamedTuple):
    url: str
    elsewhere: str
    servers: list[FakeProvider]

    @property
    def asked(self) -> int:
        return sum(len(server.received) for server in self.servers)


@pytest.fixture
def sites() -> Iterator[Sites]:
    with ExitStack() as stack:
        elsewhere = stack.enter_context(serving_in_thread(site("")))
        here = stack.enter_context(serving_in_thread(site(elsewhere.url)))
        yield Sites(here.url, elsewhere.url, [here, elsewhere])


def fetch_all(fetch: Fetch, url: str) -> list[Got]:
    return [
        fetch("GET", f"{url}/picture.png"),
        fetch("HEAD", f"{url}/picture.png"),
        fetch("GET", f"{url}/moved"),
        fetch("POST", f"{url}/away", json={"a": 1}),
        fetch("POST", f"{url}/posted", data=b"x=1"),
        fetch("GET", f"{url}/echo?q=caf%C3%A9&q=2"),
        fetch("PUT", f"{url}/echo", data=PICTURE),
        fetch("GET", f"{url}/gone"),
    ]


@clients
def test_everything_is_recorded_and_replayed(sites: Sites, tmp_path: Path, fetch: Fetch) -> None:
    with intercept(tmp_path, "once", http="all") as recording:
        live = fetch_all(fetch, sites.url)
    asked = sites.asked
    with intercept(tmp_path, "replay", http="all") as replaying:
        assert fetch_all(fetch, sites.url) == live
        missed = fetch("GET", f"{sites.url}/echo?q=other")
    with intercept(tmp_path, "once", http="all"):
        assert fetch_all(fetch, sites.url) == live

    assert sites.asked == asked == 11, "each hop of a redirect, once"
    assert [got.status for got in live] == [200, 200, 200, 200, 200, 200, 200, 410]
    picture, head, moved, away, posted, *_ = live
    assert picture.body == moved.body == PICTURE
    assert (head.body, head.headers["content-length"], head.headers["etag"]) == (b"", "11", '"e"')
    assert (moved.url, away.url) == (f"{sites.url}/picture.png?again", f"{sites.elsewhere}/echo")
    assert json.loads(away.body) == {"method": "POST", "path": "/echo", "body": away_body(away)}
    assert json.loads(posted.body)["method"] == "GET"
    assert posted.headers["mcp-session-id"] == "s-1"
    assert missed.status == 424
    assert f"nothing is recorded for GET /echo of {sites.url}".encode() in missed.body
    assert (recording.calls, replaying.calls) == (11, 12)
    assert recording.others == {urlsplit(sites.url).netloc, urlsplit(sites.elsewhere).netloc}
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"c0ffee" not in stored
    assert b"15 Nov 2026" not in stored, "nothing of that very day"


def away_body(got: Got) -> str:
    """As the library writes it."""
    body: str = json.loads(got.body)["body"]
    assert json.loads(body) == {"a": 1}
    return body


def test_a_key_in_a_body_is_neither_asked_for_nor_stored(sites: Sites, tmp_path: Path) -> None:
    """Some search APIs take theirs there; whoever replays has another one, or none."""
    key, url = "tv" + "ly-AbCdEfGh0123456789AbCdEfGh012345", f"{sites.url}/gone"
    with intercept(tmp_path, "once", http="all"):
        with_requests("POST", url, json={"api_key": key, "query": "one", "token": "t"})
    with intercept(tmp_path, "replay", http="all"):
        for body in ({"API_KEY": "test"}, {}):
            assert with_requests("POST", url, json={**body, "query": "one", "token": "t"}).status == 410
        for body in ({"query": "two", "token": "t"}, {"query": "one", "token": "u"}):
            assert with_requests("POST", url, json={"api_key": key, **body}).status == 424
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"api_key" not in stored
    assert key.encode() not in stored


def test_what_is_there_is_given_without_a_loop(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{sites.url}/picture.png"
    with intercept(tmp_path, "once", http="all"):
        with_requests("GET", url)
    monkeypatch.setattr("cortex_replay.interception.transports.answers.SyncAnswer", None)
    with intercept(tmp_path, "replay", http="all"):
        assert with_requests("GET", url).body == PICTURE


def test_by_default_it_is_left_alone(sites: Sites, tmp_path: Path) -> None:
    Store.create(tmp_path)
    with intercept(tmp_path, "replay") as interception:
        assert with_requests("GET", f"{sites.url}/gone").status == 410
    with intercept(tmp_path, "replay", http="all", allow_hosts=["localhost"]) as allowing:
        assert with_requests("GET", f"{sites.url}/gone").status == 410
    with intercept(tmp_path, "live", http="all") as live:
        assert with_requests("GET", f"{sites.url}/gone").status == 410
    assert interception.calls == allowing.calls == live.calls == 0
    unknown: Any = "everything"
    with (
        pytest.raises(InvalidRequest, match="http: is models or all, not 'everything'"),
        intercept(tmp_path, "replay", http=unknown),
    ):
        pass


def test_models_are_asked_as_ever_beside_it(tmp_path: Path) -> None:
    """By the same key in both ways to record; and faults are of models alone."""
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
    with model_server() as server:
        url, headers = f"{server.url}/v1/messages", {"x-api-key": REAL_KEY}
        with intercept(tmp_path, "once", http="all"):
            other = requests.get(f"{server.url}/other", timeout=60)
            answer = requests.post(url, json=asked, headers=headers, timeout=60)
        assert (other.status_code, answer.status_code) == (404, 200)
        with intercept(tmp_path, "replay") as interception:
            assert httpx.post(url, json=asked).content == answer.content
        with intercept(tmp_path, "replay", http="all") as interception:
            interception.faults = Faults([Fault.parse("529")])
            assert requests.get(f"{server.url}/other", timeout=60).content == other.content
            assert [httpx.post(url, json=asked).status_code for _ in range(2)] == [529, 200]
        assert len(server.received) == 2
    assert len(Store.open(tmp_path)) == 1


def test_what_a_client_brings_goes_to_its_server_and_to_no_file(tmp_path: Path, sites: Sites) -> None:
    headers = {"cookie": COOKIE, "authorization": f"Bearer {REAL_KEY}", "referer": "http://from.example/"}
    with intercept(tmp_path, "once", http="all"):
        answer = requests.get(f"{sites.url}/echo?token=t0ken-of-mine-123", headers=headers, timeout=60)
        assert answer.cookies["session"] == COOKIE.partition("=")[2], "what the server gave it"
    sent = sites.servers[0].received[0].headers
    assert {name: sent[name] for name in headers} == headers
    with intercept(tmp_path, "replay", http="all"), urllib.request.urlopen(f"{sites.url}/echo") as replayed:
        assert replayed.status == 200, "no key of a client is part of what is asked"
        assert "set-cookie" not in replayed.headers
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (REAL_KEY, "c0ffee", "t0ken-of-mine"):
        assert secret.encode() not in stored


def plant_redirect(root: Path, url: str, location: str) -> None:
    """As somebody else's recording may have it."""
    request: dict[str, JsonValue] = {
        "upstream": url,
        "method": "GET",
        "path": "/start",
        "query": [],
        "body": None,
    }
    planted: dict[str, JsonValue] = {"location": location, "content-encoding": "gzip", "set-cookie": "a=b"}
    wire: dict[str, JsonValue] = {"status": 302, "headers": planted, "body": "x"}
    store = Store.create(root)
    store.add_exchange(opaque_exchange(request, wire))
    store.commit()


@pytest.mark.parametrize("mode", ["replay", "once"])
def test_a_strangers_recording_leads_no_client_to_another_server(
    tmp_path: Path, sites: Sites, mode: Any
) -> None:
    """Who would get the key that the client has with it."""
    plant_redirect(tmp_path, sites.url, f"{sites.elsewhere}/steal")
    with intercept(tmp_path, mode, http="all"):
        answer = with_httpx("GET", f"{sites.url}/start", headers={"x-api-key": REAL_KEY})
    assert sites.asked == 0
    assert answer.status == (302 if mode == "once" else 424)
    assert "content-encoding" not in answer.headers


def test_a_recording_may_lead_on_at_its_own_server(tmp_path: Path, sites: Sites) -> None:
    plant_redirect(tmp_path, sites.url, "picture.png")
    with intercept(tmp_path, "once", http="all"):
        assert with_requests("GET", f"{sites.url}/start").body == PICTURE
    assert sites.asked == 1
