"""The gateway as an application, without a socket: how much of a body is read, and what room it takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from cortex_replay import Answer
from cortex_replay.admin.callers import Callers
from cortex_replay.config import CallerSettings, Settings
from cortex_replay.faults import Faults
from cortex_replay.gateway import Pace
from cortex_replay.gateway.access import Access
from cortex_replay.gateway.app import App
from cortex_replay.gateway.room import FREE_BYTES, Place, Room
from cortex_replay.gateway.rpc import Rpc
from cortex_replay.run import Run
from tests.builder import StoreBuilder, fixture_of
from tests.engine.http.harness import PATHS, body_of, request_for, run_over
from tests.waiting import let_others_run

MOST = 1000
HELLO = request_for("Say hello.")
CHAT = PATHS["openai-chat"]
ASKED = orjson.dumps(body_of("openai-chat", HELLO))
ENTRANCES = {
    "a completion": CHAT,
    "an exchange": "/openai/v1/embeddings",
    "the control door": "/-/faults",
    "the RPC": "/rpc",
    "an MCP server": "/mcp/files",
}
"""Where a body is read, each by a line of its own."""


class Got(NamedTuple):
    status: int
    body: bytes
    taken: int
    """How many pieces of the body were."""


class Client:
    """Sends one call to an application, piece by piece."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def send(
        self,
        path: str,
        *pieces: bytes,
        length: int | None = None,
        leaves: bool = False,
        brought: tuple[bytes, bytes] = (b"authorization", b"Bearer a-token-of-a-caller"),
    ) -> Got:
        headers = [(b"host", b"here"), brought]
        headers += [] if length is None else [(b"content-length", b"%d" % length)]
        scope = {
            "type": "http",
            "method": "POST",
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
        }
        said: list[dict[str, Any]] = []
        taken = 0

        async def receive() -> dict[str, Any]:
            nonlocal taken
            if taken == len(pieces):
                return {"type": "http.disconnect"} if leaves else await asyncio.Event().wait()  # type: ignore[return-value]
            taken += 1
            return {
                "type": "http.request",
                "body": pieces[taken - 1],
                "more_body": leaves or taken < len(pieces),
            }

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        await self._app(scope, receive, send)
        status = said[0]["status"] if said else 0
        return Got(status, b"".join(message.get("body", b"") for message in said), taken)


def app_of(run: Run, **options: Any) -> App:
    access = Access(["here"], "", is_open=lambda _: True, has_rpc=True)
    rpc = Rpc(run, {})
    callers = {"ci": CallerSettings(token_env=("TOKEN",))}
    rpc.callers = Callers(Settings(callers=callers), {"TOKEN": "a-token-of-a-caller"})
    return App(
        run.engine(), access, Pace(), Faults(), rpc, MOST, **options, door=lambda: pytest.fail("opened")
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = StoreBuilder(tmp_path / "store")
    made.add_fixture(fixture_of(HELLO, Answer("Hello.")))
    return made.write()


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("name", ENTRANCES)
@pytest.mark.parametrize(
    ("pieces", "length", "taken"),
    [
        ([b"x" * 2000], 2000, 0),
        ([b"x" * 2000], None, 1),
        (cut(b"x" * 5000, 100), None, 11),
        ([b"x" * 1000, b"x", b"x" * 9], None, 2),
        ([b"x"], 10**30, 0),
    ],
    ids=["by its word", "in one piece", "in many pieces", "by one byte", "by a word that no body keeps"],
)
def test_a_body_has_a_limit_at_every_entrance(
    root: Path, name: str, pieces: list[bytes], length: int | None, taken: int
) -> None:
    """And no more of it is read than it takes to see."""
    with run_over(root) as run:
        got = asyncio.run(Client(app_of(run)).send(ENTRANCES[name], *pieces, length=length))

    assert (got.status, got.taken) == (413, taken)


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_a_body_in_pieces_is_one_body(root: Path, size: int) -> None:
    with run_over(root) as run:
        got = asyncio.run(Client(app_of(run)).send(CHAT, *cut(ASKED, size)))

    assert got.status == 200
    assert b"Hello." in got.body


@pytest.mark.parametrize("kept", [0, 1, 40, len(ASKED)])
def test_a_client_that_leaves_in_its_body_is_not_answered(root: Path, kept: int) -> None:
    """Also where what came of it would be a call."""
    with run_over(root) as run:
        pieces = [ASKED[:kept]] if kept else []
        got = asyncio.run(Client(app_of(run)).send(CHAT, *pieces, leaves=True))
        assert (run.ledger.hits, run.ledger.misses) == (0, [])

    assert (got.status, got.body) == (0, b"")


def test_the_room_of_large_bodies_is_shared_and_given_back(root: Path) -> None:
    """What comes in pieces takes room as it comes; whoever has its answer has given it back."""
    size = FREE_BYTES + 1
    held: list[int] = []

    async def main(run: Run) -> None:
        app = app_of(run, most_bodies=4 * size)
        app._max_body = 100 * size
        client = Client(app)
        for _ in range(12):
            for pieces, length in (([b"x" * size], size), (cut(b"x" * size * 3, size), None)):
                async with asyncio.timeout(20):
                    got = await client.send("/openai/v1/embeddings", *pieces, length=length)
                assert got.status == 424
                held.append(app._room.most - app._room.free)

    with run_over(root) as run:
        asyncio.run(main(run))
    assert set(held) == {0}


def test_a_body_in_pieces_takes_room_while_it_comes(root: Path) -> None:
    """Nobody knows beforehand how large it will be."""
    free: list[int] = []

    async def main(run: Run) -> None:
        app = app_of(run)
        app._max_body = app._room.most

        class Watching(bytes):
            def __len__(self) -> int:  # asked when a piece is counted
                free.append(app._room.free)
                return super().__len__()

        pieces = [Watching(b"x" * FREE_BYTES) for _ in range(4)]
        assert (await Client(app).send("/openai/v1/embeddings", *pieces)).status == 424
        assert app._room.free == app._room.most

    with run_over(root) as run:
        asyncio.run(main(run))
    assert min(free) < max(free)


def test_a_body_in_pieces_waits_for_room() -> None:
    """Its size is not known beforehand: it takes more as it grows, and waits where there is none."""

    async def main() -> list[int]:
        room = Room(4 * FREE_BYTES)
        free = []
        with Place(room) as first:
            await first.hold_part(FREE_BYTES)
            free.append(room.free)
            await first.hold_part(FREE_BYTES + 1)
            free.append(room.free)
        return [*free, room.free]

    assert asyncio.run(main()) == [4 * FREE_BYTES, 0, 4 * FREE_BYTES]


def test_who_gives_up_waiting_for_room_gives_back_nothing() -> None:
    async def main() -> tuple[int, int]:
        room = Room(1000)
        await room.take(800)
        waiting = [asyncio.ensure_future(room.take(500)) for _ in range(2)]
        await let_others_run()
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        before = room.free
        room.give(800)
        return before, room.free

    assert asyncio.run(main()) == (200, 1000)


def test_who_gives_up_in_the_very_moment_gives_its_room_back() -> None:
    async def main() -> int:
        room = Room(1000)
        await room.take(800)
        waiting = asyncio.ensure_future(room.take(500))
        await let_others_run()
        waiting.cancel()
        room.give(800)
        await asyncio.gather(waiting, return_exceptions=True)
        return room.free

    assert asyncio.run(main()) == 1000


@pytest.mark.parametrize(
    "brought",
    [
        (b"x-other", b"1"),
        (b"authorization", b"Bearer wrong-token-of-a-caller"),
        (b"authorization", b"Basic a-token-of-a-caller"),
        (b"x-cortex-replay-token", b"the-gateway-s-own"),
        (b"x-cortex-replay-token", b"a-token-of-a-caller"),
    ],
)
def test_only_a_caller_s_own_token_opens_the_rpc(root: Path, brought: tuple[bytes, bytes]) -> None:
    """Not the gateway's, which opens all else; and nothing is read before."""
    with run_over(root) as run:
        got = asyncio.run(Client(app_of(run)).send("/rpc", b"{}", brought=brought))

    assert (got.status, got.taken) == (401, 0)
