"""Nothing of the machine that recorded is in any byte of the store: no user, host, home or working folder.

Whatever the call: a completion, whole or as a stream that cuts values in two; a failure; a call that is
recorded as it is; a WebSocket. Where it is replayed, a client gets what is so there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from cortex_replay import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.canonical import JsonValue
from cortex_replay.providers import address_at
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread
from tests.engine.http.harness import PATHS, ask, run_over
from tests.gateway.conftest import gateway_over
from tests.gateway.upstream import REAL_KEY
from tests.property.places import Place, render
from tests.servers.websockets import socket_upstream
from tests.waiting import LONGEST_S

IDS: Final = (
    "0b5f1f5e-5f0e-4c1b-9a53-0f6c8a7d1e11",
    "6c1c5f2e-8d4b-4f7a-8b1d-5e2f9c3a7d22",
    "9d2e6a3f-1c5b-4e8d-a7f6-3b4c5d6e7f33",
)
HERE: Final = Place(
    cwd='/home/zélda vögelin/Große Arbeit/it\'s "mine"',
    home="/home/zélda vögelin",
    tmp="/var/folders/q9/zeldavogelin/T",
    user="zeldavogelin",
    host="quokkabox-7788",
    day=date(2026, 3, 14),
    ids=IDS,
)
THERE: Final = Place(
    cwd="/data/ci/checkout",
    home="/data/people/noah",
    tmp="/scratch/noahs",
    user="noahs",
    host="builder-31",
    day=date(2027, 8, 2),
    ids=("1e3f7b40-2d6c-4f9e-b807-4c5d6e7f8044", IDS[1], IDS[2]),
)
MODELS: Final = {"bedrock-anthropic": "anthropic.claude-invented", "bedrock-nova": "amazon.nova-invented"}
"""Of the wires that only some models speak."""
TOLD: Final = (
    "I am {{user}} on {{host}}, at home in {{home}}, at work in {{cwd}} (file://{{cwd_url}}), "
    "with {{slug}}, {{tmp}}/x."
)
TOOL: Final[dict[str, JsonValue]] = {
    "name": "write_note",
    "description": "Writes below {{cwd}}.",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "In {{home}}."}},
    },
}


def needles(place: Place) -> list[str]:
    """What must not be found, in every spelling; names of folders that only this machine has, too."""
    marks = place.marks()
    plain = [
        *(marks[name] for name in ("cwd", "home", "tmp", "user", "host", "slug")),
        "Große Arbeit",
        "vögelin",
    ]
    spelled = [
        spelling
        for text in plain
        for once in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        for spelling in (once, json.dumps(once)[1:-1], quote(text), quote(text, safe=""))
    ]
    return list(dict.fromkeys(spelled))


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else [*value, *value.values()]:
            yield from texts_in(item)


def readings(path: Path) -> Iterator[str]:
    """A file as it is, and as somebody reads it who puts the pieces of a stream together."""
    yield path.as_posix()
    raw = path.read_text(encoding="utf-8")
    yield raw
    if path.suffix != ".json":
        return
    document = json.loads(raw)
    yield from texts_in(document)
    for wire in texts_of_wires(document):
        yield wire
        # Each text of an event, without what stands around it.
        for name in ("content", "text", "delta", "thinking", "partial_json", "arguments", "reasoning"):
            pieces = re.findall(rf'\\?"{name}\\?": ?\\?"((?:[^"\\]|\\.)*)"', wire)
            yield "".join(pieces)


def texts_of_wires(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for name in ("events", "frames"):
            if isinstance(document.get(name), list):
                yield "".join("".join(texts_in(event)) for event in document[name])
        for value in document.values():
            yield from texts_of_wires(value)
    elif isinstance(document, list):
        for item in document:
            yield from texts_of_wires(item)


def residue(root: Path, place: Place) -> list[tuple[str, str]]:
    wanted = needles(place)
    return [
        (path.name, needle)
        for path in sorted(root.rglob("*"))
        if path.is_file()
        for text in readings(path)
        for needle in wanted
        if needle in text
    ]


def spoken(request: LlmRequest) -> LlmResponse:
    """Says what it was told, and wants a file to be written there."""
    told = "\n".join([request.system, *(message.content for message in request.messages)])
    path = next(iter(re.findall(r"(?s)at work in (.*?) \(file", told)), "?")
    calls = (ToolCall(id="call_1", name="write_note", arguments={"path": f"{path}/notes.txt", "n": 1}),)
    is_tool = bool(request.tools)
    return LlmResponse(
        told,
        None,
        request.model,
        TokenUsage(11, 5),
        "",
        "tool_calls" if is_tool else "stop",
        calls if is_tool else (),
    )


def pieces(response: LlmResponse, length: int) -> Iterator[StreamChunk]:
    """Cut wherever it hurts."""
    for at in range(0, len(response.text), length):
        yield StreamChunk(response.text[at : at + length])
    for number, call in enumerate(response.tool_calls):
        text = ToolCallDelta.whole(number, call).arguments
        yield StreamChunk("", tool_calls=(ToolCallDelta(number, call.id, call.name, text[:length]),))
        for at in range(length, len(text), length):
            yield StreamChunk("", tool_calls=(ToolCallDelta(number, arguments=text[at : at + length]),))
    yield StreamChunk("", response.finish_reason, response=response)


async def parrot(exchange: Exchange) -> None:
    """A model server that repeats all that it is told."""
    received = exchange.received
    path = received.path.partition("?")[0]
    address = address_at(path)
    if address is None or received.method != "POST" or b"please fail" in received.body:
        said = received.body.decode() or received.path
        status = 429 if b"please fail" in received.body else 200
        error = {"error": {"message": f"no: {said}", "type": "rate_limit_error"}, "asked": received.path}
        await exchange.whole(json.dumps(error).encode(), status, x_served_by=HERE.host)
        return
    wire = WIRES[address.protocol]
    document = {**received.json, **dict(address.parameters)}
    response = spoken(wire.lift(document))
    if not wire.wants_stream(document):
        await exchange.whole(json.dumps(wire.encode_answer(response, "real")).encode())
        return
    encoder = wire.stream_encoder(response.model, "real")
    await exchange.start_stream(wire.stream_media_type)
    await exchange.piece(encoder.start())
    for chunk in pieces(response, 5):
        await exchange.piece(encoder.chunk(chunk))
        await asyncio.sleep(0)
    await exchange.end_stream()


@pytest.fixture
def server() -> Iterator[FakeProvider]:
    with serving_in_thread(parrot) as serving:
        yield serving


def question(protocol: str, place: Place, *, is_stream: bool, more: str = "") -> Any:
    """What is asked at a place, with tools if the wire has them."""
    tools: tuple[JsonValue, ...] = () if protocol in ("openai-completions", "ollama-generate") else (TOOL,)
    is_raw = protocol == "openai-completions"
    system = "" if is_raw else "Your notes are in {{home}}/.notes."
    extra: dict[str, JsonValue] = {"raw": True} if is_raw else {}
    request = LlmRequest(MODELS.get(protocol, "m"), system, TOLD + more, None, 64, tools=tools, extra=extra)
    body = json.loads(json.dumps(WIRES[protocol].lower(request, stream=is_stream)))
    return render(body, place.marks())


def call(protocol: str, place: Place, *, is_stream: bool) -> tuple[str, str, Any]:
    """A question that no other wire asks."""
    more = f" This goes over {protocol}, {'in pieces' if is_stream else 'whole'}."
    return "POST", PATHS[protocol], question(protocol, place, is_stream=is_stream, more=more)


def told_at(place: Place, protocol: str, *, is_stream: bool) -> str:
    """What the model says to it there."""
    body = {**call(protocol, place, is_stream=is_stream)[2], "model": "m"}
    said = spoken(WIRES[protocol].lift(body))
    return said.text + "".join(map(_arguments, said.tool_calls))


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False, sort_keys=True)


ALL: Final = [(protocol, is_stream) for protocol in WIRES for is_stream in (False, True)]


def test_completions(server: FakeProvider, tmp_path: Path) -> None:
    """Over every wire; and what is replayed elsewhere names what is there, in texts and in tool calls."""
    with run_over(tmp_path, "once", server.url, surroundings=HERE.surroundings()) as run:
        live = [ask(run, *call(protocol, HERE, is_stream=is_stream)) for protocol, is_stream in ALL]
    assert [got.status for got in live] == [200] * len(ALL)
    assert HERE.user.encode() in live[0].body, "the client gets it as it came"

    assert residue(tmp_path, HERE) == []

    with run_over(tmp_path, surroundings=HERE.surroundings()) as run:
        again = [ask(run, *call(protocol, HERE, is_stream=is_stream)) for protocol, is_stream in ALL]
    assert [got.body for got in again] == [got.body for got in live]
    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        for protocol, is_stream in ALL:
            got = ask(run, *call(protocol, THERE, is_stream=is_stream))
            assert got.status == 200, got.body
            said = decoded(protocol, got.body, is_stream=is_stream)
            assert said == told_at(THERE, protocol, is_stream=is_stream), protocol
            assert THERE.cwd in said


def decoded(protocol: str, body: bytes, *, is_stream: bool) -> str:
    """The text of an answer, and the arguments of its tool calls."""
    wire = WIRES[protocol]
    if is_stream:
        decoder = wire.stream_decoder("m")
        chunks = [*decoder.feed(body), *decoder.finish()]
        response = next(chunk.response for chunk in reversed(chunks) if chunk.response is not None)
    else:
        response = wire.decode_answer(body, "m")
    return response.text + "".join(map(_arguments, response.tool_calls))


def test_failures(server: FakeProvider, tmp_path: Path) -> None:
    path, more = PATHS["openai-chat"], " Now please fail."
    with run_over(
        tmp_path, "once", server.url, record_failures=True, surroundings=HERE.surroundings()
    ) as run:
        live = ask(run, "POST", path, question("openai-chat", HERE, is_stream=True, more=more))
    assert live.status == 429
    assert HERE.user.encode() in live.body

    assert residue(tmp_path, HERE) == []

    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        replayed = ask(run, "POST", path, question("openai-chat", THERE, is_stream=True, more=more))
    assert replayed.status == 429
    assert f"I am {THERE.user} on {THERE.host}" in replayed.body.decode()


def test_calls_that_are_recorded_as_they_are(server: FakeProvider, tmp_path: Path) -> None:
    """By body, path and query."""

    def calls(place: Place) -> list[tuple[str, str, Any]]:
        marks = place.marks()
        body = render({"model": "m", "input": [TOLD], "user": "{{user}}"}, marks)
        return [
            ("POST", "/openai/v1/embeddings", body),
            ("GET", f"/openai/v1/files/{quote(place.cwd, safe='')}/content", b""),
            ("GET", f"/openai/v1/models?after={quote(place.cwd, safe='')}&limit=3", b""),
        ]

    with run_over(tmp_path, "once", server.url, surroundings=HERE.surroundings()) as run:
        live = [ask(run, *call) for call in calls(HERE)]
    assert [one.status for one in live] == [200, 200, 200]

    assert residue(tmp_path, HERE) == []

    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        replayed = [ask(run, *call) for call in calls(THERE)]
    assert [one.status for one in replayed] == [200, 200, 200], replayed
    assert f"I am {THERE.user} on {THERE.host}" in replayed[0].body.decode()
    assert quote(THERE.cwd, safe="") in replayed[1].body.decode()


def test_websockets(tmp_path: Path) -> None:
    """A response over one, and a session."""

    def responses(url: str, place: Place) -> str:
        with connect(f"{url}/v1/responses", compression=None) as socket:
            told = render(TOLD, place.marks())
            body = {"type": "response.create", "model": "m", "input": [{"role": "user", "content": told}]}
            return until(socket, json.dumps(body), "response.completed")

    def session(url: str, place: Place) -> str:
        with connect(f"{url}/v1/realtime?model=gpt-realtime", compression=None) as socket:
            content = [
                {"type": "input_text", "text": render("I am {{user}}, working in {{cwd}}.", place.marks())}
            ]
            item = {"type": "message", "role": "user", "content": content}
            until(
                socket,
                json.dumps({"type": "conversation.item.create", "item": item}),
                "conversation.item.added",
            )
            return until(socket, json.dumps({"type": "response.create"}), "response.done")

    def until(socket: Any, sent: str, kind: str) -> str:
        socket.send(sent)
        frames: list[str] = []
        while not frames or json.loads(frames[-1])["type"] not in (kind, "error"):
            frames.append(str(socket.recv(LONGEST_S)))
        return "\n".join(frames)

    with (
        socket_upstream(REAL_KEY) as upstream,
        gateway_over(tmp_path, "once", upstream.url, surroundings=HERE.surroundings()) as gateway,
    ):
        url = gateway.url("openai").replace("http://", "ws://")
        live = [responses(url, HERE), session(url, HERE)]
    assert all(HERE.user in text for text in live)

    assert residue(tmp_path, HERE) == []

    with gateway_over(tmp_path, surroundings=THERE.surroundings()) as gateway:
        url = gateway.url("openai").replace("http://", "ws://")
        for ask_there in (responses, session):
            said = ask_there(url, THERE)
            assert THERE.user in said, said
            assert HERE.user not in said


def test_the_name_of_a_scope(server: FakeProvider, tmp_path: Path) -> None:
    """A parameter of a test may be a folder; elsewhere, the test has its answers all the same."""

    def scope(place: Place) -> str:
        return f"tests/test_it.py::test[{place.cwd} {place.home}/x {place.tmp}]"

    path, asked = PATHS["openai-chat"], question("openai-chat", HERE, is_stream=False)
    with run_over(tmp_path, "once", server.url, surroundings=HERE.surroundings()) as run:
        ask(run, "POST", path, asked, scope="tests/test_it.py::other")
        ask(run, "POST", path, asked, scope=scope(HERE))

    assert residue(tmp_path, HERE) == []

    with run_over(tmp_path, surroundings=THERE.surroundings()) as run:
        asked = question("openai-chat", THERE, is_stream=False)
        assert ask(run, "POST", path, asked, scope=scope(THERE)).status == 200
        ((*_, used),) = run.ledger.used_scoped
        assert used == "tests/test_it.py::test[⟦cwd⟧ ⟦home⟧/x ⟦tmp⟧]"
        assert run.store.has_own(*next(iter(run.ledger.used_scoped)))
