"""What strangers send costs little: no memory for bodies nobody wants, no loop that stands still."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cortex_replay import Fixture, LlmRequest, Store
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.faults import Fault, Faults
from cortex_replay.faults.replies import faulty_reply
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.room import NoRoom, Place, Room
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store.exchange import Exchange as Recorded, parse_exchange, render_exchange
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.builder import StoreBuilder
from tests.cli.programs import Shell, served
from tests.gateway.conftest import gateway_over
from tests.sampling import sample
from tests.waiting import wait_until

MIB = 2**20
STRANGERS = 100
ASKED = {"model": "m", "messages": [{"role": "user", "content": "q"}]}

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    Store.create(tmp_path / "llm")
    return Shell(tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def head(port: int, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{port}", *lines, "", ""]).encode()


@contextlib.contextmanager
def strangers(port: int, path: str, *lines: str, chunk: bytes = b"") -> Iterator[list[socket.socket]]:
    """A hundred connections, each of which sends as much of a body as anybody takes, and never its end."""
    connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(STRANGERS)]
    for connection in connections:
        connection.sendall(head(port, path, *lines))
        connection.setblocking(False)
    data = chunk or b" " * 65536
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        for connection in connections:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                connection.send(data)
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


@on_linux
@pytest.mark.parametrize("is_chunked", sample([False, True], 1))
def test_the_bodies_of_strangers_take_little_memory(shell: Shell, is_chunked: bool) -> None:
    """In replay, where anybody on this machine is served; it was 4.5 MB for each of them, and more."""
    line = "transfer-encoding: chunked" if is_chunked else f"content-length: {32 * MIB}"
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n" if is_chunked else b""
    with served(shell) as (facts, process):
        small = f"{facts['url']}/openai/v1/chat/completions"
        assert httpx.post(small, json=ASKED).status_code == 424
        before = resident(process.pid)
        with strangers(facts["port"], "/openai/v1/chat/completions", line, chunk=chunk):
            grown = resident(process.pid) - before
            assert httpx.post(small, json=ASKED, timeout=60).status_code == 424, "small ones are served"
        assert grown < 224 * MIB, f"{grown / MIB:.0f} MiB"


@on_linux
def test_without_the_token_no_body_is_read(shell: Shell) -> None:
    with served(shell, "--mode", "once") as (facts, process):
        assert httpx.get(f"http://127.0.0.1:{facts['port']}/openai/v1/models").status_code == 401
        before = resident(process.pid)
        with strangers(facts["port"], "/openai/v1/files", f"content-length: {32 * MIB}") as connections:
            grown = resident(process.pid) - before
            connections[0].settimeout(5)
            assert connections[0].recv(12) == b"HTTP/1.1 401"
        assert grown < 40 * MIB, f"{grown / MIB:.0f} MiB"


def test_whoever_was_refused_cannot_go_on_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.protocol._MOST_UNREAD_BYTES", MIB)
    with gateway_over(tmp_path / "store", "live", "http://127.0.0.1:9") as gateway:
        connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
        connection.sendall(head(gateway.port, "/openai/v1/files", "transfer-encoding: chunked"))
        flood = (b"10000\r\n" + b" " * 65536 + b"\r\n") * 500
        with pytest.raises(ConnectionError):
            connection.sendall(flood)
        connection.close()


def test_large_bodies_of_honest_clients_all_get_their_turn(tmp_path: Path) -> None:
    """More than there is room for at once."""
    body = json.dumps({**ASKED, "messages": [{"role": "user", "content": "x" * (3 * MIB)}]}).encode()
    with gateway_over(tmp_path / "store", max_body=4 * MIB) as gateway:
        room = gateway._app._room = Room(8 * MIB)
        least = [room.free]
        take = room.take

        async def watched(size: int) -> None:
            await take(size)
            least.append(room.free)

        room.take = watched  # type: ignore[method-assign]
        statuses: list[int] = []

        def ask() -> None:
            url = gateway.url("openai") + "/v1/chat/completions"
            statuses.append(httpx.post(url, content=body, timeout=60).status_code)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [424] * 8
        assert min(least) >= 0
        wait_until(lambda: room.free == room.most)


def test_when_there_is_no_room_a_client_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.gateway.room._PATIENCE_S", 0.2)
    with gateway_over(tmp_path / "store") as gateway:
        room = gateway._app._room = Room(MIB)
        url = gateway.url("anthropic") + "/v1/messages"
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as stuck:
            stuck.sendall(head(gateway.port, "/anthropic/v1/messages", f"content-length: {MIB}") + b"{")
            wait_until(lambda: room.free == 0)
            refused = httpx.post(url, content=b" " * (MIB // 2))
            small = httpx.post(url, json=ASKED)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "x-should-retry" not in refused.headers
        assert refused.json()["type"] == "error", "in its provider's shape"
        assert small.status_code == 424
        wait_until(lambda: room.free == room.most)  # whoever leaves gives back what it held
        for content in (b" " * (MIB // 2), b"{" * (MIB + 1)):
            httpx.post(url, content=content)
        assert httpx.post(url, content=iter([b" " * 300_000, b" " * 300_000])).status_code == 400
        wait_until(lambda: room.free == room.most)


def test_the_smallest_comes_first_and_nothing_is_lost() -> None:
    async def run() -> list[int]:
        room = Room(100)
        done: list[int] = []

        async def use(size: int) -> None:
            await room.take(size)
            done.append(size)
            room.give(size)

        await room.take(100)
        tasks = [asyncio.create_task(use(size)) for size in (90, 50, 70, 10)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        room.give(100)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert room.free == 100
        with Place(room) as place:
            await place.hold(10**9)
            assert room.free == 0, "what can never fit has all of it"
        assert room.free == 100
        return done

    assert asyncio.run(run()) == [10, 70, 90]


def test_waiting_for_room_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.gateway.room._PATIENCE_S", 0.01)

    async def run() -> int:
        room = Room(10)
        await room.take(10)
        with pytest.raises(NoRoom):
            await room.take(1)
        room.give(10)
        return room.free

    assert asyncio.run(run()) == 10


async def _deep(exchange: Exchange) -> None:
    """Lists in lists, each of which may be one text in pieces."""
    await exchange.whole(b"[" * 90 + b",".join([b'"a\\\\u0041"'] * 20_000) + b"]" * 90)


def test_others_are_answered_while_a_large_answer_is_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is redacted beside the loop: were it in the loop, both would wait for each other here."""
    has_begun, is_answered = threading.Event(), threading.Event()
    look = RedactingStager._is_clean

    def held_up(self: RedactingStager, wire: dict[str, JsonValue]) -> bool:
        has_begun.set()
        assert is_answered.wait(60), "nobody else was answered"
        return look(self, wire)

    monkeypatch.setattr(RedactingStager, "_is_clean", held_up)
    with (
        serving_in_thread(_deep) as provider,
        gateway_over(tmp_path / "store", "once", provider.url) as gateway,
    ):
        url = gateway.url("openai") + "/v1/embeddings"
        large = threading.Thread(target=lambda: httpx.post(url, json={"input": "x"}, timeout=60))
        large.start()
        assert has_begun.wait(60)
        assert httpx.get(gateway.url("-") + "/faults", timeout=30).status_code == 200
        is_answered.set()
        large.join()
        assert gateway.run.ledger.recorded == 1


def test_scopes_misses_and_hosts_are_not_kept_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.engine.core._MOST_TURNS", 5)
    monkeypatch.setattr("cortex_replay.engine.ledger._MOST_LISTED", 5)
    builder = StoreBuilder(tmp_path / "store")
    builder.add("q", "one")
    builder.write()
    store = Store.open(tmp_path / "store")
    (item,) = store.list()
    request = store.get(item.model, item.prompt_hash).request
    assert request is not None
    with gateway_over(tmp_path / "store") as gateway:
        for number in range(20):
            url = gateway.url("openai", scope=f"stranger {number} " + "x" * 2000) + "/v1/chat/completions"
            assert httpx.post(url, json=ASKED | {"model": f"m{number}"}).status_code == 424
        assert gateway.run._turns == 0, "what is not recorded is not counted"
        ledger = gateway.run.ledger
        assert (len(ledger.misses), len(set(ledger.misses))) == (20, 6)
        shown = ledger.to_dict(gateway.run.store)
        assert (len(shown["misses"]), shown["missed"]) == (5, 20)


def test_a_scope_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.engine.core._MOST_TURNS", 5)

    async def answer(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": f"answer {time.monotonic_ns()}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await exchange.whole(json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode())

    with (
        serving_in_thread(answer) as provider,
        gateway_over(tmp_path / "store", "once", provider.url) as gateway,
    ):
        for _ in range(2):  # two answers to one question, so that calls are counted
            url = gateway.url("openai", scope="s") + "/v1/chat/completions"
            assert httpx.post(url, json=ASKED).status_code == 200
    with gateway_over(tmp_path / "store") as gateway:
        statuses = [
            httpx.post(gateway.url("openai", scope=f"s{n}") + "/v1/chat/completions", json=ASKED).status_code
            for n in range(8)
        ]
        assert statuses == [200] * 5 + [400] * 3
        again = httpx.post(gateway.url("openai", scope="s0") + "/v1/chat/completions", json=ASKED)
        assert again.status_code == 200, "and those that are known go on"


def test_the_faults_of_strangers_are_not_counted_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.faults.schedule._MOST_COUNTED", 5)
    monkeypatch.setattr("cortex_replay.faults.schedule._MOST_LISTED", 5)
    with gateway_over(tmp_path / "store") as gateway:
        statuses = [_faulty(gateway, f"5{n:02}@1") for n in range(10)]
        assert statuses == [500, 501, 502, 503, 504] + [400] * 5
        assert _faulty(gateway, "") == 424, "those who want no fault are not concerned"
    faults = Faults()
    for number in range(10):
        faults.note(Fault.parse(f"5{number:02}"))
    assert faults.struck["(others)"] == 5


def _faulty(gateway: Gateway, fault: str) -> int:
    headers = {"x-cortex-replay-fault": fault} if fault else {}
    url = gateway.url("openai") + "/v1/chat/completions"
    return httpx.post(url, json=ASKED, headers=headers).status_code


def test_hosts_around_the_gateway_are_not_listed_without_end() -> None:
    ledger = Ledger(Redactor)
    for number in range(3000):
        ledger.bypass(f"host-{number}.example:443")
        ledger.refuse(f"reason {number}")
        ledger.damage(f"reason {number}")
    assert len(ledger.bypassed) == 1001
    assert sum(ledger.bypassed.values()) == 3000
    assert (len(set(ledger.refused)), len(ledger.refused)) == (1001, 3000)
    assert len(set(ledger.broken)) == 1001


@on_linux
@pytest.mark.parametrize("is_read", [True, False])
def test_calls_in_advance_take_little_memory(shell: Shell, is_read: bool) -> None:
    """One connection that sends calls without waiting for answers; it was 2 GB in twenty seconds."""
    with served(shell) as (facts, process):
        port = facts["port"]
        before = resident(process.pid)
        with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
            reader = threading.Thread(target=read_all, args=(connection,), daemon=True)
            if is_read:
                reader.start()
            pushed(connection, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 4000, seconds=3)
            assert resident(process.pid) - before < 40 * MIB
        assert httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 424


def test_a_few_calls_in_advance_are_answered_in_turn(tmp_path: Path) -> None:
    with gateway_over(tmp_path) as gateway, socket.create_connection(("127.0.0.1", gateway.port)) as sent:
        sent.sendall(f"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1:{gateway.port}\r\n\r\n".encode() * 8)
        sent.settimeout(10)
        answers = b""
        while answers.count(b"HTTP/1.1 424") < 8:
            piece = sent.recv(65536)
            assert piece
            answers += piece


@on_linux
@pytest.mark.parametrize("host", ["127.0.0.1", "elsewhere"])
def test_what_stands_behind_a_body_is_not_collected(shell: Shell, host: str) -> None:
    """A header there, without end, of somebody who was let in or refused; it cost a core, and memory."""
    with served(shell) as (facts, process):
        port = facts["port"]
        before = resident(process.pid)
        with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
            lines = f"host: {host}:{port}\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "
            connection.sendall(f"POST /openai/v1/chat/completions HTTP/1.1\r\n{lines}".encode())
            assert pushed(connection, b"a" * 65536, seconds=3) < 8 * MIB
            assert resident(process.pid) - before < 20 * MIB
        assert httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 424


def test_a_body_in_pieces_may_have_headers_behind_it(tmp_path: Path) -> None:
    body = json.dumps(ASKED).encode()
    with gateway_over(tmp_path) as gateway, socket.create_connection(("127.0.0.1", gateway.port)) as sent:
        line = "transfer-encoding: chunked"
        sent.sendall(head(gateway.port, "/openai/v1/chat/completions", line))
        for byte in body:
            sent.sendall(b"1\r\n")
            sent.sendall(bytes([byte]))
            sent.sendall(b"\r\n")
        sent.sendall(b"0\r\nx-checksum: 1\r\n")
        sent.sendall(b"\r\n")
        sent.settimeout(10)
        assert b" 424 " in sent.recv(65536)


def test_a_large_body_may_come_in_pieces_that_end_behind_a_size(tmp_path: Path) -> None:
    """It is no head, however its pieces are cut."""
    piece = b" " * 65536
    with gateway_over(tmp_path) as gateway, socket.create_connection(("127.0.0.1", gateway.port)) as sent:
        sent.sendall(head(gateway.port, "/openai/v1/chat/completions", "transfer-encoding: chunked"))
        sent.sendall(b"10000\r\n")
        for _ in range(40):
            time.sleep(0.005)
            sent.sendall(piece + b"\r\n10000\r\n")
        sent.sendall(piece + b"\r\n0\r\n\r\n")
        sent.settimeout(10)
        assert b" 400 " in sent.recv(65536)


def read_all(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(MIB):
            pass


def pushed(connection: socket.socket, data: bytes, seconds: float) -> int:
    """How many bytes somebody takes in a while."""
    end = time.monotonic() + seconds
    count = 0
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            connection.sendall(data)
            count += len(data)
    return count


def test_a_miss_is_told_and_kept_in_a_few_words(tmp_path: Path) -> None:
    """Whatever the model is called; a thousand misses are kept, and each was as large as a body may be."""
    asked = ASKED | {"model": "m" * 2 * MIB}
    with gateway_over(tmp_path, how_to_record="do this") as gateway:
        answer = httpx.post(f"{gateway.url()}/v1/chat/completions", json=asked, timeout=60)
        opaque = httpx.get(f"{gateway.url()}/v1/models/{'m' * 60_000}")
        kept = gateway.run.ledger.misses
        assert max(len(answer.content), len(opaque.content)) < 20_000
        assert answer.json()["error"]["message"].endswith("To record it: do this")
        assert [len(miss.what) + len(miss.explanation) < 40_000 for miss in kept] == [True, True]


def test_the_faults_that_a_call_names_are_few(tmp_path: Path) -> None:
    """Each spelling is counted by itself, and it was kept, with up to 128 KB."""
    with gateway_over(tmp_path) as gateway:
        url = f"{gateway.url()}/v1/chat/completions"
        answers = [
            httpx.post(url, json=ASKED, headers={"x-cortex-replay-fault": ",".join(["500@9"] * count)})
            for count in (1, 100, 10_000)
        ]
        assert [answer.status_code for answer in answers] == [424, 424, 400]
        assert "1000 characters" in answers[2].text


@pytest.mark.parametrize("fault", ["timeout@always", "stall@always"])
def test_calls_that_want_no_answer_give_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Anybody may ask for a timeout in replay; as many as there are connections locked everybody out."""
    monkeypatch.setattr("cortex_replay.gateway.protocol._MOST_CONNECTIONS", 5)
    store = Store.open_or_create(tmp_path)
    store.add(Fixture.of(LlmRequest("m", "", "q", None, None), "an answer"))
    store.commit()
    body = json.dumps(ASKED | {"stream": True}).encode()
    with gateway_over(tmp_path) as gateway, contextlib.ExitStack() as stack:
        lines = f"x-cortex-replay-fault: {fault}", f"content-length: {len(body)}"
        for n in range(8):
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            stack.enter_context(connection)
            connection.sendall(head(gateway.port, "/openai/v1/chat/completions", *lines) + body)
            wait_until(lambda n=n: gateway._app._answering.faults.struck.total() > n)  # type: ignore[misc]
        for _ in range(3):
            assert httpx.get(f"{gateway.url()}/v1/models").status_code == 424


@pytest.mark.parametrize("is_in_pieces", [False, True])
def test_a_client_that_does_not_read_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_pieces: bool
) -> None:
    monkeypatch.setattr("cortex_replay.gateway.protocol._MOST_CONNECTIONS", 3)
    store = Store.open_or_create(tmp_path)
    request: dict[str, JsonValue] = {"upstream": "openai", "method": "GET", "path": "/v1/large", "query": []}
    events: list[JsonValue] = [{"at_ms": 0, "text": "x" * MIB}] * 24
    content: dict[str, JsonValue] = {"events": events} if is_in_pieces else {"body": "x" * 24 * MIB}
    wire: dict[str, JsonValue] = {"status": 200, "headers": {}, **content}
    store.add_exchange(parse_exchange(render_exchange(Recorded(wire, request=request))))
    store.commit()
    with gateway_over(tmp_path) as gateway, contextlib.ExitStack() as stack:
        for _ in range(6):
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            stack.enter_context(connection)
            lines = [f"host: 127.0.0.1:{gateway.port}"]
            lines += ["x-cortex-replay-fault: chunks:event@always"] if is_in_pieces else []
            connection.sendall("\r\n".join(["GET /openai/v1/large HTTP/1.1", *lines, "", ""]).encode())
            assert select.select([connection], [], [], 30)[0], "its answer has begun"
        for _ in range(3):
            assert httpx.get(f"{gateway.url()}/v1/models").status_code == 424
        assert len(gateway._server.server_state.connections) <= 4


@pytest.mark.parametrize(("fault", "most"), [("event", 8), ("byte", 300_000), ("whole", 1)])
def test_an_answer_in_pieces_has_a_bounded_number_of_them(fault: str, most: int) -> None:
    """It took half a second of the loop, and 100 MB, for every megabyte of a recording."""
    events = tuple((0.0, b"x" * MIB) for _ in range(8))
    reply = faulty_reply(
        Fault.parse(f"chunks:{fault}@always"), HttpReply(200, (), b"x" * 8 * MIB, events), None
    )
    assert reply is not None
    assert len(reply.events) <= most
    assert sum(len(data) for _, data in reply.events) == 8 * MIB


@pytest.mark.parametrize("is_late", [False, True])
def test_bodies_that_do_not_come_hold_no_room_that_others_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Two connections and two bytes kept everybody else's large bodies out, for as long as they liked."""
    monkeypatch.setattr("cortex_replay.gateway.room._GRACE_S", 0.1)
    monkeypatch.setattr("cortex_replay.gateway.room._SLOWEST", 320 * MIB)
    asked = ASKED | {"messages": [{"role": "user", "content": "q" * 100_000}]}
    with gateway_over(tmp_path) as gateway, contextlib.ExitStack() as stack:
        for _ in range(6):  # the later ones wait for room themselves, and then hold it in their turn
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            stack.enter_context(connection)
            line = f"content-length: {32 * MIB}"
            connection.sendall(head(gateway.port, "/openai/v1/chat/completions", line) + b"{")
        time.sleep(0.25 if is_late else 0.1)
        answer = httpx.post(f"{gateway.url()}/v1/chat/completions", json=asked, timeout=60)
        assert answer.status_code == 424


def test_a_slow_body_that_nobody_waits_for_has_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_replay.gateway.room._GRACE_S", 0.0)
    monkeypatch.setattr("cortex_replay.gateway.room._SLOWEST", 1000 * MIB)
    body = json.dumps(ASKED | {"messages": [{"role": "user", "content": "q" * 200_000}]}).encode()
    with gateway_over(tmp_path) as gateway, socket.create_connection(("127.0.0.1", gateway.port)) as sent:
        sent.sendall(head(gateway.port, "/openai/v1/chat/completions", f"content-length: {len(body)}"))
        for start in range(0, len(body), 50_000):
            time.sleep(0.05)
            sent.sendall(body[start : start + 50_000])
        sent.settimeout(10)
        assert b" 424 " in sent.recv(65536)
