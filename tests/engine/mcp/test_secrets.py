"""Secrets in whatever a client and a server say to each other: none is stored, printed or logged, and a call
with one in it is found again."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.lookups import look_up_tool
from cortex_replay.mcp.questions import question_of
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Store
from tests.engine.mcp.harness import Client, FakeServer
from tests.redact.kinds import IN_CONTEXT, KINDS, Secret
from tests.sampling import IS_TORTURE

ALL = {**KINDS, **IN_CONTEXT}
SOME = [*(KINDS if IS_TORTURE else list(KINDS)[::5]), *IN_CONTEXT]
"""27 of them, from all parts of the list; all on demand."""
Message = dict[str, Any]


def secret_of(kind: str) -> Secret:
    return ALL[kind](Random(f"mcp {kind}"))


def bytes_below(root: Path) -> bytes:
    return b"\n".join(
        path.as_posix().encode() + b"\n" + path.read_bytes() for path in root.rglob("*") if path.is_file()
    )


class Tattler:
    """A server that says a secret in every way it has."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reply(self, message: Message) -> list[Message]:
        text, half = self._text, len(self._text) // 2
        if "id" not in message or "method" not in message:
            return []
        log = "notifications/message"
        return [
            {"method": log, "params": {"level": "info", "data": {"said": text}}},
            {"method": log, "params": {"level": "info", "data": text[:half]}},
            {"method": log, "params": {"level": "info", "data": text[half:]}},
            {"id": "s-1", "method": "elicitation/create", "params": {"message": f"is it {text} ?"}},
            {
                "id": message["id"],
                "result": {
                    "content": [
                        {"type": "text", "text": json.dumps({"inner": json.dumps({"value": text})})},
                        {"type": "text", "text": text[:half]},
                        {"type": "text", "text": text[half:]},
                        {
                            "type": "resource",
                            "resource": {
                                "uri": "a://b",
                                "blob": base64.b64encode(f"it is {text}\n".encode()).decode(),
                            },
                        },
                    ],
                    "structuredContent": {f"{text}": 1},
                    "tools": [{"name": text}],
                },
            },
            {"method": log, "params": {"level": "info", "data": f"behind it: {text}"}},
        ]


async def converse(run: RunCore, server: FakeServer, text: str, asked: str) -> Client:
    client = Client(run, server)
    task = asyncio.ensure_future(
        client.ask(
            "tools/call", {"name": "login", "arguments": {"note": asked, "deep": [{"x": asked}]}}, id=1
        )
    )
    for _ in range(200):
        await asyncio.sleep(0)
        asks = [message for message in client.got if message.get("method") == "elicitation/create"]
        if asks:
            break
    if asks:
        said = {
            "jsonrpc": "2.0",
            "id": asks[0]["id"],
            "result": {"action": "accept", "content": {"it": asked}},
        }
        await client.session.take(json.dumps(said).encode())
    await task
    await client.session.close()
    return client


@pytest.mark.parametrize("kind", SOME)
def test_a_secret_is_nowhere_and_its_call_is_found_with_it_and_without_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = secret_of(kind)
    root = tmp_path / "store"
    run = RunCore(lambda: Store.open_or_create(root), Mode.RECORD, Redactor)

    asyncio.run(converse(run, FakeServer(Tattler(secret.whole).reply), secret.whole, secret.whole))
    run.commit()

    stored = [json.loads(path.read_bytes()) for path in root.glob("**/exchanges/**/*.json")]
    assert (len(stored), run.ledger.refused) == (1, [])
    written = bytes_below(root).decode()
    for text in (secret.text, json.dumps(secret.text)[1:-1], base64.b64encode(secret.text.encode()).decode()):
        assert text not in written
    placeholder = stored[0]["request"]["body"]["arguments"]["note"]
    assert "[REDACTED:" in placeholder
    [result] = [entry["result"] for entry in stored[0]["wire"]["messages"] if "result" in entry]
    blob = result["content"][3]["resource"]["blob"]
    assert b"[REDACTED:" in base64.b64decode(blob, validate=True)
    for asked in (secret.whole, placeholder):
        replay = RunCore(lambda: Store.open_or_create(root), Mode.REPLAY, Redactor)
        client = asyncio.run(converse(replay, FakeServer(lambda _: []), secret.whole, asked))
        assert (replay.ledger.hits, replay.ledger.misses) == (1, []), client.got[-1]
        assert client.connections == 0
        assert "error" not in json.dumps(client.got)
    assert secret.text not in caplog.text


@pytest.mark.parametrize("kind", SOME)
def test_a_model_that_is_replayed_asks_for_what_was_recorded(kind: str) -> None:
    """What is cut out of its answer, in one text or in many pieces, is what is cut out of the call."""
    redactor = Redactor()
    arguments: dict[str, Any] = {"command": f'say "{secret_of(kind).whole}"\nnow', "times": 1}
    written = json.dumps(arguments)
    pieces = [written[start : start + 7] for start in range(0, len(written), 7)]

    cut, _ = redactor.document({"name": "shell", "arguments": arguments})
    said, _ = redactor.document({"body": json.dumps({"tool": {"arguments": written}})})
    streamed, _ = redactor.document(
        {"events": [{"text": f"data: {json.dumps({'a': one})}\n\n"} for one in pieces]}
    )

    assert isinstance(cut, dict)
    assert isinstance(said, dict)
    assert isinstance(streamed, dict)
    events: Any = streamed["events"]
    assert json.loads(json.loads(str(said["body"]))["tool"]["arguments"]) == cut["arguments"]
    assert json.loads("".join(json.loads(event["text"][6:])["a"] for event in events)) == cut["arguments"]


KNOWN = "the-one-that-nobody-guesses-42"


def record(root: Path, asked: Message, said: list[Message], server: str = "tools") -> RunCore:
    """A session in which a server says something to one call."""
    run = RunCore(lambda: Store.open_or_create(root), Mode.RECORD, lambda: Redactor([KNOWN]))

    async def main() -> None:
        client = Client(run, FakeServer(lambda message: [*said, {"id": message["id"], "result": {}}]), server)
        await client.ask(asked["method"], asked.get("params"), id=1)
        await client.session.close()

    asyncio.run(main())
    run.commit()
    return run


def call(name: str = "login", **arguments: Any) -> Message:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def log(data: Any) -> Message:
    return {"method": "notifications/message", "params": {"level": "info", "data": data}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (call(where={KNOWN: 1}), []),
        (call(KNOWN), []),
        (call(words=[KNOWN[:9], KNOWN[9:]]), []),
        (call(), [log(KNOWN[:9]), log(KNOWN[9:])]),
        (call(), [log({"pieces": [{"text": KNOWN[:9]}, {"text": KNOWN[9:]}]})]),
        (call(), [{"method": "x", "params": {KNOWN: 1}}]),
    ],
    ids=["a name", "the name of a tool", "pieces", "two frames", "pieces of a frame", "a name of a server"],
)
def test_what_is_known_is_cut_out_wherever_it_stands(
    tmp_path: Path, asked: Message, said: list[Message]
) -> None:
    run = record(tmp_path, asked, said)

    assert (run.ledger.recorded, run.ledger.refused) == (1, [])
    written = bytes_below(tmp_path).decode()
    assert KNOWN not in written
    assert KNOWN[9:] not in written
    replay = RunCore(lambda: Store.open_or_create(tmp_path), Mode.REPLAY, lambda: Redactor([KNOWN]))
    look = look_up_tool(replay.counting_scope(), question_of("tools", asked["method"], asked["params"]))
    assert replay.store.exchange_row(look.key) is not None


PICTURE = b"\x89PNG\xff\xfe" + KNOWN.encode() + b"\xff"


@pytest.mark.parametrize(
    ("asked", "said", "server", "why"),
    [
        (call(), [], f"of-{KNOWN}", "there is a secret in what was asked"),
        ({"method": f"tools/{KNOWN}"}, [], "tools", "there is a secret in what was asked"),
        (
            call(),
            [log({"type": "image", "data": base64.b64encode(PICTURE).decode()})],
            "tools",
            "a secret could not be cut out of the answer",
        ),
        (
            call(),
            [
                log({"uri": "a://b", "blob": base64.b64encode(b"\xff" + KNOWN[:9].encode()).decode()}),
                log({"uri": "a://b", "blob": base64.b64encode(KNOWN[9:].encode() + b"\xff").decode()}),
            ],
            "tools",
            "a secret could not be cut out of the answer",
        ),
    ],
    ids=["the name of a server", "a method", "a picture", "two blobs"],
)
def test_what_cannot_be_cut_out_is_not_recorded_and_the_ledger_says_why(
    tmp_path: Path, asked: Message, said: list[Message], server: str, why: str
) -> None:
    run = record(tmp_path, asked, said, server)

    assert run.ledger.recorded == 0
    [refused] = run.ledger.refused
    assert refused.endswith(f": {why}")
    assert KNOWN not in refused
    assert KNOWN.encode() not in bytes_below(tmp_path)
    assert not list(tmp_path.glob("**/exchanges/**/*.json"))


def test_a_key_that_a_test_has_set_since_is_cut_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "just-set-by-a-test-4711")

    run = record(tmp_path, call(key="just-set-by-a-test-4711"), [log("just-set-by-a-test-4711")])

    assert (run.ledger.recorded, run.ledger.refused) == (1, [])
    assert b"just-set-by-a-test" not in bytes_below(tmp_path)


def test_a_picture_without_a_secret_keeps_its_bytes(tmp_path: Path) -> None:
    picture = {"type": "image", "data": base64.b64encode(b"\x89PNG" + bytes(range(256))).decode()}

    record(tmp_path, call(), [log({"seen": [picture], "key": KNOWN})])

    [path] = tmp_path.glob("**/exchanges/**/*.json")
    [said, _] = json.loads(path.read_bytes())["wire"]["messages"]
    assert said["notification"]["params"]["data"] == {"seen": [picture], "key": "[REDACTED:known-value]"}


def test_a_miss_says_nothing_of_a_secret(tmp_path: Path) -> None:
    record(tmp_path, call(note="x"), [])
    run = RunCore(lambda: Store.open_or_create(tmp_path), Mode.REPLAY, lambda: Redactor([KNOWN]))

    async def main() -> Message:
        client = Client(run, FakeServer(lambda _: []))
        return await client.ask("tools/call", {"name": KNOWN, "arguments": {"note": KNOWN}}, id=1)

    error = asyncio.run(main())["error"]

    assert "[REDACTED:known-value]" in error["message"]
    assert KNOWN not in json.dumps(error)
    assert KNOWN not in repr(run.ledger.misses)
