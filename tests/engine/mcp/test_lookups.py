"""Calls that are found again: in another folder, by another client, of another protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.bindings import Surroundings
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.handshakes import has_handshake, recorded_handshake
from cortex_replay.mcp.messages import NO_FIXTURE
from cortex_replay.mcp.questions import question_of
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store
from tests.engine.mcp.harness import Client, FakeServer

Message = dict[str, Any]
Ask = tuple[str, dict[str, Any]]
HERE = {"HOME": "/home/wilhelmina", "USER": "wilhelmina", "LOGNAME": "wilhelmina"}
THERE = {"HOME": "/users/ottokar", "USER": "ottokar", "LOGNAME": "ottokar"}


def answer_with(reply: Callable[[Message], list[Message]]) -> FakeServer:
    return FakeServer(lambda message: reply(message) if "id" in message and "method" in message else [])


def echo(message: Message) -> list[Message]:
    return [
        {
            "id": message["id"],
            "result": {"content": [{"type": "text", "text": json.dumps(message["params"])}]},
        }
    ]


def talk(
    root: Path,
    mode: Mode,
    asked: Sequence[Ask],
    server: FakeServer | None = None,
    surroundings: Surroundings | None = None,
) -> tuple[list[Message], RunCore]:
    """What a client gets, in order."""
    run = RunCore(lambda: Store.open_or_create(root), mode, Redactor, surroundings=surroundings)

    async def main() -> list[Message]:
        client = Client(run, server or answer_with(echo))
        for number, (method, parameters) in enumerate(asked, start=1):
            await client.ask(method, parameters, id=number)
        await client.session.close()
        assert mode.asks or client.connections == 0
        return client.got

    got = asyncio.run(main())
    if mode.writes:
        run.commit()
    return got, run


def exchanges(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(root.glob("**/exchanges/**/*.json"))]


def test_what_was_recorded_in_one_folder_is_found_in_another(tmp_path: Path) -> None:
    """Values are bound in arguments, results and roots; numbers, names of fields and of tools are not."""

    def reply(message: Message) -> list[Message]:
        cwd = message["params"]["arguments"]["path"]
        text = json.dumps({"where": f"{cwd}/notes.txt", "who": "wilhelmina"})
        said = {"level": "info", "data": f"reading {cwd}", "wilhelmina": 20261116}
        result = {
            "content": [{"type": "text", "text": text}, {"type": "text", "text": f"in {cwd} on 2026-11-16"}],
            "structuredContent": {"name": cwd, "size": 1},
        }
        return [
            {"method": "notifications/message", "params": said},
            {"id": message["id"], "result": result},
        ]

    day = datetime(2026, 11, 16, 12, tzinfo=UTC)
    here = Surroundings.of({**HERE, "PWD": "/home/wilhelmina/shop"}, "/home/wilhelmina/shop", day)
    later = datetime(2027, 1, 2, 12, tzinfo=UTC)
    there = Surroundings.of({**THERE, "PWD": "/users/ottokar/x"}, "/users/ottokar/x", later)
    call = {"name": "wilhelmina", "arguments": {"path": "/home/wilhelmina/shop"}}

    talk(tmp_path, Mode.RECORD, [("tools/call", call)], answer_with(reply), here)
    call = {"name": "wilhelmina", "arguments": {"path": "/users/ottokar/x"}}
    replayed, run = talk(tmp_path, Mode.REPLAY, [("tools/call", call)], surroundings=there)

    [stored] = exchanges(tmp_path)
    assert stored["request"]["body"] == {"name": "wilhelmina", "arguments": {"path": "⟦cwd⟧"}}
    assert "home/wilhelmina" not in json.dumps(stored)
    assert replayed[0]["params"] == {
        "level": "info",
        "data": "reading /users/ottokar/x",
        "wilhelmina": 20261116,
    }
    said = replayed[1]["result"]
    assert json.loads(said["content"][0]["text"]) == {"where": "/users/ottokar/x/notes.txt", "who": "ottokar"}
    assert said["content"][1]["text"] == "in /users/ottokar/x on 2027-01-02"
    assert said["structuredContent"] == {"name": "/users/ottokar/x", "size": 1}
    assert (run.ledger.hits, run.ledger.misses) == (1, [])


def test_two_ids_are_two_questions(tmp_path: Path) -> None:
    def of(number: int) -> list[Ask]:
        return [
            (
                "tools/call",
                {"name": "get", "arguments": {"id": f"0b7c1a4e-5d3f-4c55-9d5e-00000000000{number}"}},
            )
        ]

    talk(tmp_path, Mode.RECORD, of(1))

    assert "result" in talk(tmp_path, Mode.REPLAY, of(1))[0][0]
    assert "error" in talk(tmp_path, Mode.REPLAY, of(2))[0][0]


def test_a_method_is_no_value_of_a_run(tmp_path: Path) -> None:
    """Somebody may be called like a word of the protocol."""
    somebody = Surroundings.of({"HOME": "/home/subscribe", "USER": "subscribe"}, "/home/subscribe")
    asked = [("resources/subscribe", {"uri": "a://b"}), ("tools/call", {"name": "subscribe"})]

    talk(tmp_path, Mode.RECORD, asked, surroundings=somebody)
    got, _ = talk(tmp_path, Mode.REPLAY, asked, surroundings=Surroundings.of(THERE, "/users/ottokar"))

    assert ["result" in message for message in got] == [True, True]


def initialize(version: str, **capabilities: Any) -> Ask:
    parameters = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "c"}}
    return "initialize", parameters


def greeter(version: str) -> FakeServer:
    return answer_with(
        lambda message: [{"id": message["id"], "result": {"protocolVersion": version, "capabilities": {}}}]
    )


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (initialize("2025-06-18"), "2025-06-18"),
        (initialize("2025-06-18", sampling={}), "2025-06-18"),
        (initialize("2025-11-25", roots={}), "2025-06-18"),
        (initialize("2025-03-26"), "2024-11-05"),
        (initialize("2024-10-07"), None),
    ],
)
def test_a_client_gets_the_newest_recorded_handshake_that_it_understands(
    tmp_path: Path, asked: Ask, answered: str | None
) -> None:
    """Never one with a newer version than it proposed: it would end the session."""
    for version in ("2024-11-05", "2025-06-18"):
        talk(tmp_path, Mode.RECORD, [initialize(version)], greeter(version))

    [message], run = talk(tmp_path, Mode.REPLAY, [asked])

    assert message.get("result", {}).get("protocolVersion") == answered
    assert len(run.ledger.misses) == (answered is None)


def test_a_handshake_of_another_server_will_not_do(tmp_path: Path) -> None:
    run = RunCore(lambda: Store.open_or_create(tmp_path), Mode.RECORD, Redactor)

    async def record() -> None:
        client = Client(run, greeter("2025-06-18"), "another")
        await client.ask(*initialize("2025-06-18"), id=1)
        await client.session.close()

    asyncio.run(record())
    run.commit()

    [message], _ = talk(tmp_path, Mode.REPLAY, [initialize("2025-06-18", roots={})])

    assert "No call of server tools is recorded, but of: another." in message["error"]["message"]


def test_a_newer_client_is_told_to_shake_hands_where_that_is_recorded(tmp_path: Path) -> None:
    """It asks for the versions first. Nobody recorded that, and it is no miss."""
    talk(tmp_path, Mode.RECORD, [initialize("2025-06-18")], greeter("2025-06-18"))

    got, run = talk(tmp_path, Mode.REPLAY, [("server/discover", {}), initialize("2025-11-25")])

    assert got[0]["error"]["code"] == -32601
    assert got[1]["result"]["protocolVersion"] == "2025-06-18"
    assert (run.ledger.hits, run.ledger.misses) == (1, [])


def test_an_older_client_is_told_that_a_newer_one_recorded(tmp_path: Path) -> None:
    """No answer is made up for it."""
    talk(tmp_path, Mode.RECORD, [("server/discover", {}), ("tools/list", {})])

    [message], run = talk(tmp_path, Mode.REPLAY, [initialize("2025-06-18")])

    assert "Of server tools there is: server/discover, tools/list." in message["error"]["message"]
    assert "recorded with a client of a newer protocol" in message["error"]["message"]
    assert len(run.ledger.misses) == 1


def test_a_question_about_versions_is_a_miss_where_nothing_is_recorded(tmp_path: Path) -> None:
    talk(tmp_path, Mode.RECORD, [("tools/list", {})])

    [message], run = talk(tmp_path, Mode.REPLAY, [("server/discover", {})])

    assert message["error"]["code"] == NO_FIXTURE
    assert len(run.ledger.misses) == 1


class Curious:
    """A server that asks the client something before it answers."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._about: Any = None

    def reply(self, message: Message) -> list[Message]:
        if "method" in message and "id" in message:
            self._about = message["id"]
            return [{"id": "curious", "method": self._method}]
        return [{"id": self._about, "result": {"said": message["result"]}}] if "result" in message else []


def ask_back(
    root: Path,
    mode: Mode,
    answer: dict[str, Any],
    surroundings: Surroundings | None = None,
    known: Sequence[str] = (),
) -> Message:
    """What comes of a call in which the client is asked for its roots."""
    run = RunCore(
        lambda: Store.open_or_create(root), mode, lambda: Redactor(known), surroundings=surroundings
    )

    async def main() -> Message:
        client = Client(run, FakeServer(Curious("roots/list").reply))
        asked = asyncio.ensure_future(client.ask("tools/call", {"name": "where"}, id=1))
        while not (found := [one for one in client.got if one.get("method") == "roots/list"]):
            await asyncio.sleep(0)
        said = {"jsonrpc": "2.0", "id": found[0]["id"], "result": answer}
        await client.session.take(json.dumps(said).encode())
        got = await asked
        await client.session.close()
        return got

    got = asyncio.run(main())
    if mode.writes:
        run.commit()
    return got


def roots(folder: str, name: str) -> dict[str, Any]:
    return {"roots": [{"uri": f"file://{folder}", "name": name}]}


def test_the_roots_of_another_folder_are_the_recorded_ones(tmp_path: Path) -> None:
    """And others are a miss that says so."""
    here = Surroundings.of(HERE, "/home/wilhelmina/shop")
    there = Surroundings.of(THERE, "/users/ottokar/x")

    ask_back(tmp_path, Mode.RECORD, roots("/home/wilhelmina/shop", "wilhelmina"), here)
    same = ask_back(tmp_path, Mode.REPLAY, roots("/users/ottokar/x", "ottokar"), there)
    other = ask_back(tmp_path, Mode.REPLAY, roots("/users/ottokar/y", "ottokar"), there)

    assert same["result"] == {"said": roots("/users/ottokar/x", "ottokar")}
    assert other["error"]["code"] == NO_FIXTURE
    assert "roots/list" in other["error"]["message"]
    assert "wilhelmina" not in json.dumps(exchanges(tmp_path))


def test_an_answer_with_a_secret_is_the_recorded_one_with_it_and_without_it(tmp_path: Path) -> None:
    secret = "the-one-that-nobody-guesses-42"

    def answer(text: str) -> dict[str, Any]:
        return {"action": "accept", "content": {"password": text, text: 1}}

    ask_back(tmp_path, Mode.RECORD, answer(secret), known=[secret])
    with_it = ask_back(tmp_path, Mode.REPLAY, answer(secret), known=[secret])
    without = ask_back(tmp_path, Mode.REPLAY, answer("[REDACTED:known-value]"))
    other = ask_back(tmp_path, Mode.REPLAY, answer("another"), known=[secret])

    assert secret not in json.dumps(exchanges(tmp_path))
    assert with_it["result"] == without["result"] == {"said": answer("[REDACTED:known-value]")}
    assert other["error"]["code"] == NO_FIXTURE


def test_the_files_of_a_store_are_read_once_for_the_handshakes_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite opens a session for each test, and its client may be a newer one."""
    talk(tmp_path, Mode.RECORD, [initialize("2025-06-18")], greeter("2025-06-18"))
    store, scans = Store.open(tmp_path), list[str]()
    scan = store.scan_exchanges

    def count(scope: str = "") -> Iterator[tuple[tuple[str, str], bytes]]:
        scans.append(scope)
        return scan(scope)

    monkeypatch.setattr(store, "scan_exchanges", count)
    asked = question_of("tools", *initialize("2025-11-25"))

    found = [recorded_handshake(store, "", asked) for _ in range(3)]

    assert [one is not None for one in found] == [True, True, True]
    assert scans == [""]
    assert not has_handshake(store, "", "another")


def test_a_poll_that_goes_on_longer_than_it_was_recorded(tmp_path: Path) -> None:
    answers = iter(["first", "second"])

    def reply(message: Message) -> list[Message]:
        return [{"id": message["id"], "result": {"said": next(answers)}}]

    poll: Ask = "tools/call", {"name": "poll"}
    talk(tmp_path, Mode.RECORD, [poll, poll], answer_with(reply))

    got, run = talk(tmp_path, Mode.REPLAY, [poll, poll, poll])

    assert [message.get("result") for message in got] == [{"said": "first"}, {"said": "second"}, None]
    assert got[2]["error"]["message"].startswith(
        "cortex-replay: every answer that is recorded for tool poll of server tools ("
    )
    [miss] = run.ledger.misses
    assert miss.what == "tool poll of server tools"


def test_what_a_client_tries_out_is_a_miss_that_fails_nothing(tmp_path: Path) -> None:
    """A server need not have resources; a tool that is called is needed."""
    talk(tmp_path, Mode.RECORD, [("tools/list", {})])

    got, run = talk(tmp_path, Mode.REPLAY, [("resources/list", {}), ("tools/call", {"name": "t"})])

    assert [message["error"]["code"] for message in got] == [NO_FIXTURE, NO_FIXTURE]
    assert [miss.is_probe for miss in run.ledger.misses] == [True, False]
