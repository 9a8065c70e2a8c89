"""Every library, every kind of client, both ways to read an answer: recorded once, then replayed."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from cortex_replay import Store, intercept
from cortex_replay.interception import LiveCallRefused, bypassing
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Exchange, FakeProvider, held_back, serving_in_thread, whole
from tests.interception.clients import CLIENTS, HEADERS, HTTPX, OTHERS, Client, Got
from tests.interception.conftest import point_at
from tests.waiting import wait_until

CLAUDE = DIALECTS[0]


def question(text: str = "Hello.", *, stream: bool = False) -> dict[str, Any]:
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    return {**asked, "stream": True} if stream else asked


clients = pytest.mark.parametrize("client", CLIENTS, ids=str)
one_of_each_kind = pytest.mark.parametrize("client", [HTTPX[0], OTHERS[0], OTHERS[3]], ids=str)
"""For what depends on threads and loops, and not on a library."""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A store without a recording."""
    Store.create(tmp_path / "llm")
    return tmp_path / "llm"


@clients
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_call_is_made_once_and_then_replayed(
    provider: FakeProvider, tmp_path: Path, client: Client, stream: bool
) -> None:
    body = question(stream=stream)
    with intercept(tmp_path, "once") as recording:
        status, live = client.post(provider.url, body)
    with intercept(tmp_path, "once"):
        assert client.post(provider.url, body) == (status, live)
    with intercept(tmp_path, "replay") as replaying:
        assert client.post(provider.url, body) == (status, live)
        pieces: list[bytes] = []
        assert client.stream(provider.url, body, pieces) == 200

    assert status == 200
    assert b"said:" in live
    assert b"".join(pieces) == live
    assert (len(pieces) > 1) == stream
    assert len(provider.received) == 1
    assert (recording.calls, replaying.calls) == (1, 2)


@pytest.mark.parametrize(
    ("one", "other"), [(HTTPX[0], HTTPX[3]), (HTTPX[1], OTHERS[0]), (OTHERS[3], HTTPX[2])]
)
def test_what_one_library_recorded_the_other_replays(
    provider: FakeProvider, tmp_path: Path, one: Client, other: Client
) -> None:
    with intercept(tmp_path, "once"):
        recorded = one.post(provider.url, question())
    with intercept(tmp_path, "replay"):
        assert other.post(provider.url, question()) == recorded


@one_of_each_kind
def test_live_records_nothing(provider: FakeProvider, empty: Path, client: Client) -> None:
    with intercept(empty, "live") as interception:
        assert [client.post(provider.url, question())[0] for _ in range(2)] == [200, 200]

    assert (interception.calls, len(provider.received)) == (2, 2)
    assert len(Store.open_or_create(empty)) == 0


@clients
def test_a_miss_reaches_nobody(provider: FakeProvider, empty: Path, client: Client) -> None:
    with intercept(empty, "replay") as interception:
        status, body = client.post(provider.url, question())

    assert (status, interception.calls, provider.received) == (424, 1, [])
    assert b"nothing is recorded" in body.lower()


@clients
def test_the_first_piece_is_there_before_the_last_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    first, *rest = CLAUDE.events("Hel", "lo")
    may_end = threading.Event()
    pieces: list[bytes] = []

    with serving_in_thread(held_back(first, rest, may_end)) as provider:
        point_at(provider.url, monkeypatch)
        with intercept(tmp_path, "once"):
            asking = threading.Thread(
                target=client.stream, args=(provider.url, question(stream=True), pieces)
            )
            asking.start()
            try:
                wait_until(lambda: pieces)
                assert b"".join(pieces) == first
            finally:
                may_end.set()
                asking.join()

    assert b"".join(pieces) == b"".join([first, *rest])
    assert len(Store.open(tmp_path)) == 1


@clients
def test_a_stream_that_is_left_ends_upstream_and_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    def is_left() -> None:
        wait_until(lambda: provider.sent)

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(CLAUDE.events("x")[0])
        await exchange.until_closed()
        exchange.provider.sent += 1

    with serving_in_thread(endless) as provider:
        point_at(provider.url, monkeypatch)
        with intercept(tmp_path, "once"):
            assert client.stream(provider.url, question(stream=True), [], most=1, then=is_left) == 200

    assert not (tmp_path / "INDEX.toml").exists(), "a store is made by its first recording"


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_client_that_was_made_before_is_intercepted_for_as_long_as_the_block_lasts(
    provider: FakeProvider, empty: Path, library: Any
) -> None:
    url = f"{provider.url}/v1/messages"

    async def statuses() -> list[int]:
        async with library.AsyncClient(headers=HEADERS) as client:
            found = [(await client.post(url, json=question())).status_code]
            with intercept(empty, "replay"):
                found.append((await client.post(url, json=question())).status_code)
            return [*found, (await client.post(url, json=question())).status_code]

    with library.Client(headers=HEADERS) as client:
        assert client.post(url, json=question()).status_code == 200
        with intercept(empty, "replay"):
            assert client.post(url, json=question()).status_code == 424
        assert client.post(url, json=question()).status_code == 200
    assert asyncio.run(statuses()) == [200, 424, 200]
    assert len(provider.received) == 4


@clients
def test_other_servers_are_left_alone(provider: FakeProvider, empty: Path, client: Client) -> None:
    """As far as they are not asked what models are asked; see test_strangers.py."""
    with serving_in_thread(whole(b"other")) as elsewhere, intercept(empty, "replay") as interception:
        assert client.post(elsewhere.url, {"text": "Hello."}) == (200, b"other")

    assert interception.calls == 0


@one_of_each_kind
def test_the_innermost_has_the_say_and_the_outer_goes_on(
    provider: FakeProvider, tmp_path: Path, client: Client
) -> None:
    with intercept(tmp_path / "outer", "once") as outer:
        first = client.post(provider.url, question("outer"))
        with intercept(tmp_path / "inner", "once") as inner:
            client.post(provider.url, question("inner"))
        assert client.post(provider.url, question("outer")) == first

    assert (outer.calls, inner.calls) == (2, 1)
    assert [len(Store.open(tmp_path / name)) for name in ("outer", "inner")] == [1, 1]


@one_of_each_kind
def test_a_bypass_goes_to_the_server(provider: FakeProvider, empty: Path, client: Client) -> None:
    with intercept(empty, "replay") as interception:
        with bypassing():
            assert client.post(provider.url, question())[0] == 200
        assert client.post(provider.url, question())[0] == 424

    assert (interception.calls, len(provider.received)) == (1, 1)


def test_a_task_that_bypasses_takes_no_other_with_it(provider: FakeProvider, empty: Path) -> None:
    url = f"{provider.url}/v1/messages"

    async def post(*, is_around: bool, other: asyncio.Barrier) -> int:
        async with httpx.AsyncClient(headers=HEADERS) as client:
            if not is_around:
                await other.wait()
                return (await client.post(url, json=question())).status_code
            with bypassing():
                await other.wait()
                return (await client.post(url, json=question())).status_code

    async def main() -> list[int]:
        meet = asyncio.Barrier(2)
        return await asyncio.gather(*(post(is_around=way, other=meet) for way in (True, False)))

    with intercept(empty, "replay"):
        assert asyncio.run(main()) == [200, 424]


@one_of_each_kind
def test_threads_are_intercepted_and_asked_once(
    provider: FakeProvider, tmp_path: Path, client: Client
) -> None:
    """Eight at once, each with its own question, as one block."""
    meet = threading.Barrier(8)
    got: dict[int, Got] = {}

    def ask(n: int) -> None:
        meet.wait()
        got[n] = client.post(provider.url, question(f"Number {n}."))

    def ask_all() -> dict[int, Got]:
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return dict(got)

    with intercept(tmp_path, "once"):
        live = ask_all()
    with intercept(tmp_path, "replay"):
        assert ask_all() == live

    assert len(provider.received) == len(Store.open(tmp_path)) == 8
    assert all(f"Number {n}.".encode() in body for n, (_, body) in live.items())


@one_of_each_kind
def test_each_block_counts_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    scripts = [whole(CLAUDE.answer(text)) for text in ("one", "two")]
    with serving_in_thread(*scripts) as provider:
        point_at(provider.url, monkeypatch)
        with intercept(tmp_path, "once", scope="a"):
            live = [client.post(provider.url, question()) for _ in range(2)]
        url = provider.url
    for scope in ("a", "b"):
        with intercept(tmp_path, "replay", scope=scope):
            assert [client.post(url, question()) for _ in range(2)] == live
            assert client.post(url, question())[0] == 424


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """No name is looked up for real; what would have been is listed."""
    names: list[object] = []

    def look_up(host: object, *_: object, **__: object) -> Any:
        names.append(host)
        raise socket.gaierror(f"no {host!r} in tests")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


def test_the_guard_refuses_clients_that_are_not_intercepted(empty: Path, lookups: list[object]) -> None:
    async def connect() -> None:
        await asyncio.open_connection("api.anthropic.com", 443)

    with intercept(empty, "replay"):
        with pytest.raises(LiveCallRefused, match=r"live call to api\.openai\.com was refused"):
            socket.create_connection(("api.openai.com", 443))
        with pytest.raises(LiveCallRefused, match=r"api\.anthropic\.com"):
            asyncio.run(connect())
        assert lookups == []
        with pytest.raises(socket.gaierror):
            socket.create_connection(("example.com", 443))


@pytest.mark.parametrize(
    "options", [{"mode": "replay", "guard": False}, {"mode": "once"}, {"mode": "live"}], ids=str
)
def test_there_is_no_guard_where_none_is_wanted(
    empty: Path, lookups: list[object], options: dict[str, Any]
) -> None:
    with intercept(empty, **options), pytest.raises(socket.gaierror):
        socket.create_connection(("api.openai.com", 443))

    assert lookups == ["api.openai.com"]


def test_the_guard_ends_with_its_block(empty: Path, lookups: list[object]) -> None:
    with intercept(empty, "replay"):
        pass
    with pytest.raises(socket.gaierror):
        socket.create_connection(("api.openai.com", 443))


def test_a_bypass_passes_the_guard(empty: Path, lookups: list[object]) -> None:
    with intercept(empty, "replay"), bypassing(), pytest.raises(socket.gaierror):
        socket.create_connection(("api.openai.com", 443))
