"""No secret reaches the store in an exchange: in a name, in a list, in a stream, in a path, in ``meta``."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from cortex_replay import RecordingRefused, Store
from cortex_replay.adapters import LlmAdapter
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.gateway import Gateway
from cortex_replay.redact.binary import readings_of
from cortex_replay.redact.redactor import Redactor
from cortex_replay.types import LlmRequest, LlmResponse, ToolCall
from tests.adapters.fake_provider import Exchange, serving_in_thread
from tests.gateway.conftest import gateway_over
from tests.gateway.upstream import REAL_KEY
from tests.growth import grows_linearly
from tests.redact.kinds import ALNUM, HEX, some
from tests.sampling import IS_TORTURE

PATTERN = "gh" + "p_" + some(Random(15), ALNUM, 36)
SECRETS = {"known": REAL_KEY, "pattern": PATTERN}
SIZES = (1, 4, 11) if IS_TORTURE else (5,)
GOOD = {"data": [{"embedding": [0.5]}]}


@pytest.fixture(params=SECRETS)
def secret(request: pytest.FixtureRequest) -> str:
    """Once the gateway's own key, once something that looks like a key."""
    return SECRETS[request.param]


@dataclass(frozen=True)
class Given:
    """One answer of a provider, whole or in pieces."""

    content: bytes | list[bytes]
    kind: str = "application/json"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else b"".join(self.content)


EMBEDDED = Given(json.dumps(GOOD).encode())


@contextmanager
def upstream(answers: Given | dict[str, Given]) -> Iterator[str]:
    """A provider that gives one answer to everything, or one for each last part of a path."""

    async def script(exchange: Exchange) -> None:
        name = exchange.received.path.partition("?")[0].rpartition("/")[2]
        given = answers if isinstance(answers, Given) else answers[name]
        if isinstance(given.content, bytes):
            await exchange.whole(given.content, given.status, given.kind, **given.headers)
            return
        await exchange.start_stream(given.kind)
        for piece in given.content:
            await exchange.piece(piece)
        await exchange.end_stream()

    with serving_in_thread(script) as provider:
        yield provider.url


def stored_text(root: Path) -> str:
    """All that a reader finds below a store, its file names among it."""
    found = []
    for path in sorted(root.rglob("*")):
        found.append(path.name)
        if path.is_file():
            found.append(path.read_text("utf-8", "replace"))
    return "\n".join(found)


def joined_text(root: Path) -> str:
    """What the strings of all exchanges say one after the other, with everything between them left out."""
    texts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, str):
            inner = None
            for line in value.splitlines():
                text = line.removeprefix("data:").strip()
                try:
                    inner = json.loads(text)
                except ValueError:
                    texts.append(text)
                else:
                    collect(inner)
        elif isinstance(value, list):
            for item in value:
                collect(item)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)

    for path in sorted(root.rglob("*.json")):
        collect(json.loads(path.read_text()))
    return "".join(texts)


def ask(gateway: Gateway, path: str = "openai/v1/embeddings", body: Any = None) -> httpx.Response:
    return httpx.post(f"{gateway.url()}/{path}", json=body or {"model": "m", "input": "q"}, timeout=60)


def assert_clean(root: Path, secret: str) -> None:
    assert secret not in stored_text(root)
    assert secret not in joined_text(root)


IN_REQUEST: dict[str, Callable[[str], Any]] = {
    "a name": lambda secret: {"model": "m", "input": "q", "options": {secret: 1}},
    "a name deep inside": lambda secret: {"model": "m", "input": [{"a": {f"x {secret} y": None}}]},
    "a list": lambda secret: {"model": "m", "input": [secret[:9], secret[9:]]},
    "a list of three": lambda secret: {"model": "m", "input": [secret[:5], secret[5:20], secret[20:]]},
    "lists in a list": lambda secret: {"model": "m", "input": [[secret[:9]], [secret[9:]]]},
    "parts": lambda secret: {"model": "m", "input": [{"text": secret[:9]}, {"text": secret[9:]}]},
    "JSON in a string": lambda secret: {"model": "m", "input": json.dumps([secret[:9], secret[9:]])},
}


def test_a_secret_in_what_was_asked_is_not_stored(tmp_path: Path, secret: str) -> None:
    """The client has its answer; the recording is refused, because its key is made of what was asked."""
    with (
        upstream(Given(json.dumps(GOOD).encode())) as url,
        gateway_over(tmp_path / "s", "once", url) as gateway,
    ):
        for place, body in IN_REQUEST.items():
            assert ask(gateway, body=body(secret)).json() == GOOD, place
        told = httpx.get(f"{gateway.url()}/-/ledger").json()

    assert_clean(tmp_path, secret)
    assert told["recorded"] == 0
    assert len(told["not_recorded"]) == len(IN_REQUEST)
    assert all("a secret in what was asked" in reason for reason in told["not_recorded"])
    assert secret not in json.dumps(told)


IN_PATH: dict[str, Callable[[str], str]] = {
    "a segment": lambda secret: f"openai/v1/files/{secret}/content",
    "escaped": lambda secret: "openai/v1/files/" + "".join(f"%{ord(c):02x}" for c in secret),
    "escaped twice": lambda secret: "openai/v1/files/" + quote("".join(f"%{ord(c):02x}" for c in secret)),
    "two segments": lambda secret: f"openai/v1/{secret[:9]}/{secret[9:]}",
    "the query": lambda secret: f"openai/v1/files?page={secret}",
    "a name in the query": lambda secret: f"openai/v1/files?{secret}=1",
    "two pairs": lambda secret: f"openai/v1/files?q={secret[:9]}&q={secret[9:]}",
}


def test_a_secret_in_a_path_is_not_stored(tmp_path: Path, secret: str) -> None:
    with upstream(Given(b"{}")) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        for place, path in IN_PATH.items():
            assert httpx.get(f"{gateway.url()}/{path(secret)}", timeout=60).json() == {}, place
        told = httpx.get(f"{gateway.url()}/-/ledger")

    assert_clean(tmp_path, secret)
    assert secret[9:] not in stored_text(tmp_path)
    assert secret not in told.text
    assert len(told.json()["not_recorded"]) == len(IN_PATH)


IN_ANSWER: dict[str, Callable[[str], Any]] = {
    "a string": lambda secret: {"said": f"you sent {secret}."},
    "a name": lambda secret: {secret: 1},
    "a list": lambda secret: {"said": [secret[:9], secret[9:]]},
    "parts": lambda secret: {"said": [{"text": secret[:9]}, {"text": secret[9:]}]},
    "JSON in a string": lambda secret: {"said": json.dumps({"list": [secret[:9], secret[9:]]})},
}


def test_a_secret_in_an_answer_is_cut_out(tmp_path: Path, secret: str) -> None:
    """What replay serves is still JSON of the same shape."""
    answers = {place.replace(" ", "-"): make(secret) for place, make in IN_ANSWER.items()}
    given = {name: Given(json.dumps(answer).encode()) for name, answer in answers.items()}
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        for name, answer in answers.items():
            assert ask(gateway, f"openai/v1/{name}").json() == answer

    assert_clean(tmp_path, secret)
    with gateway_over(tmp_path / "s") as gateway:
        for name, answer in answers.items():
            replayed = ask(gateway, f"openai/v1/{name}")
            assert replayed.status_code == 200, name
            assert secret not in replayed.text
            assert name == "a-name" or replayed.json().keys() == answer.keys()


def sse(*documents: Any) -> list[bytes]:
    return [f"event: piece\ndata: {json.dumps(document)}\n\n".encode() for document in documents]


def in_pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


STREAMS: dict[str, tuple[str, Callable[[list[str]], list[bytes]]]] = {
    "events": ("text/event-stream", lambda pieces: sse(*({"n": 1, "text": piece} for piece in pieces))),
    "events of deltas": (
        "text/event-stream",
        lambda pieces: sse(*({"out": [{"index": 0, "delta": {"t": piece}}]} for piece in pieces)),
    ),
    "events of text": (
        "text/event-stream",
        lambda pieces: [f"data: {piece}\n\n".encode() for piece in pieces],
    ),
    "events of strings": (
        "text/event-stream",
        lambda pieces: [f"data: {json.dumps(piece)}\r\n\r\n".encode() for piece in pieces],
    ),
    "events of lists": ("text/event-stream", lambda pieces: sse(*([piece] for piece in pieces))),
    "ids of events": (
        "text/event-stream",
        lambda pieces: [f"id: {piece}\ndata: {{}}\n\n".encode() for piece in pieces],
    ),
    "lines": (
        "application/x-ndjson",
        lambda pieces: [json.dumps({"text": piece}).encode() + b"\n" for piece in pieces],
    ),
}


def test_a_secret_over_the_events_of_a_stream_is_cut_out(tmp_path: Path, secret: str) -> None:
    """Of a stream that is no completion. What replay serves has as many events, each whole."""
    given: dict[str, Given] = {}
    for kind, (media_type, write) in STREAMS.items():
        for size in SIZES:
            sent = write(in_pieces(f"your key is {secret}, good bye", size))
            given[f"{kind.replace(' ', '-')}-{size}"] = Given(sent, media_type)
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        for name, stream in given.items():
            assert ask(gateway, f"openai/v1/{name}").content == stream.sent

    assert_clean(tmp_path, secret)
    with gateway_over(tmp_path / "s") as gateway:
        for name, stream in given.items():
            assert_whole(ask(gateway, f"openai/v1/{name}"), stream, name)


def assert_whole(replayed: httpx.Response, stream: Given, name: str) -> None:
    """Assert that a stream has as many events as were sent, and that what was JSON is JSON."""
    assert replayed.status_code == 200, name
    is_sse = stream.kind == "text/event-stream"
    end = "\r\n\r\n" if b"\r" in stream.content[0] else "\n\n" if is_sse else "\n"  # type: ignore[operator]
    assert replayed.text.count(end) == len(stream.content), name
    for line in replayed.text.splitlines():
        value = line.removeprefix("data: ")
        if value.startswith(("{", "[", '"')) and not value.startswith("[REDACTED"):
            json.loads(value)
    assert "REDACTED" in replayed.text, name


def test_a_stream_without_a_secret_is_stored_byte_for_byte(tmp_path: Path) -> None:
    sent = [b'data:   {"b" : "\\u0041",  "a": 1.0}\n\n', b": a comment\r\n\r\n", b"data: [DONE]\n\n"]
    with (
        upstream(Given(sent, "text/event-stream")) as url,
        gateway_over(tmp_path / "s", "once", url) as gateway,
    ):
        ask(gateway)
    with gateway_over(tmp_path / "s") as gateway:
        assert ask(gateway).content == b"".join(sent)


def test_a_body_of_bytes_that_holds_a_secret_is_not_stored(tmp_path: Path, secret: str) -> None:
    """It cannot be cut out of a sound file or an image without breaking it."""
    body = b"\xff\xfe\x00RIFF\x00" + secret.encode() + b"\x80\x81" * 9
    with upstream(Given(body, "audio/wav")) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        assert ask(gateway).content == body
        told = httpx.get(f"{gateway.url()}/-/ledger").json()

    assert told["recorded"] == 0
    assert not list((tmp_path / "s").rglob("*.json"))


def test_a_secret_in_a_header_is_cut_out(tmp_path: Path, secret: str) -> None:
    given = Given(b"{}", headers={"request_id": f"req-{secret}"})
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        ask(gateway)

    assert len(list((tmp_path / "s").rglob("*.json"))) == 1
    assert_clean(tmp_path, secret)


def test_a_secret_in_a_recorded_failure_is_cut_out(tmp_path: Path, secret: str) -> None:
    body = json.dumps({"error": {place: make(secret) for place, make in IN_ANSWER.items()}}).encode()
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    with (
        upstream(Given(body, status=400)) as url,
        gateway_over(tmp_path / "s", "once", url, record_failures=True) as gateway,
    ):
        assert ask(gateway, "openai/v1/chat/completions", asked).content == body

    assert len(list((tmp_path / "s").rglob("*.json"))) == 1
    assert_clean(tmp_path, secret)


def test_a_failure_that_cannot_be_stored_is_given_all_the_same(tmp_path: Path, secret: str) -> None:
    body = b"\xff\xfe\x00" + secret.encode() + b"\x80"
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    with (
        upstream(Given(body, status=400)) as url,
        gateway_over(tmp_path / "s", "once", url, record_failures=True) as gateway,
    ):
        answer = ask(gateway, "openai/v1/chat/completions", asked)
        told = httpx.get(f"{gateway.url()}/-/ledger").json()

    assert (answer.status_code, answer.content) == (400, body)
    assert "recording refused" in told["not_recorded"][0]
    assert not list((tmp_path / "s").rglob("*.json"))


class _Says(LlmAdapter):
    """Answers with one response."""

    adapter_id = "says"

    def __init__(self, response: LlmResponse) -> None:
        self._response = response

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return self._response


def _response(secret: str, place: str) -> LlmResponse:
    text, model, reason, call = "Hi.", "m", "stop", ToolCall(id="1", name="f", arguments={})
    if place == "model":
        model = f"m-{secret}"
    elif place == "finish reason":
        reason = secret
    elif place == "id of a call":
        call = ToolCall(id=f"call-{secret}", name="f", arguments={})
    elif place == "name of a call":
        call = ToolCall(id="1", name=secret, arguments={})
    elif place == "name of an argument":
        call = ToolCall(id="1", name="f", arguments={secret: 1})
    elif place == "list of arguments":
        call = ToolCall(id="1", name="f", arguments={"a": [secret[:9], secret[9:]]})
    return LlmResponse(text, None, model, None, "", reason, (call,))


@pytest.mark.parametrize(
    "place",
    [
        "model",
        "finish reason",
        "id of a call",
        "name of a call",
        "name of an argument",
        "list of arguments",
        "meta",
        "name in meta",
        "list in meta",
    ],
)
def test_no_corner_of_a_recording_holds_a_secret(tmp_path: Path, secret: str, place: str) -> None:
    """Whatever an adapter answers, and whatever a caller writes into ``meta``."""
    metas: dict[str, dict[str, Any]] = {
        "meta": {"tests": [f"tests/t.py::test[{secret}]"]},
        "name in meta": {secret: 1},
        "list in meta": {"tests": [secret[:9], secret[9:]]},
    }
    meta = metas.get(place, {})

    async def record() -> None:
        inner = _Says(_response(secret, place))
        redactor = Redactor([REAL_KEY])
        async with RecordingAdapter(inner, tmp_path / "s", redactor=redactor, meta=meta) as recorder:
            await recorder.complete(LlmRequest("m", messages=[{"role": "user", "content": "q"}]))

    asyncio.run(record())

    assert len(Store.open(tmp_path / "s")) == 1
    assert_clean(tmp_path / "s", secret)


def test_a_secret_that_is_the_name_of_the_model_is_refused(tmp_path: Path, secret: str) -> None:
    """The model is half of the key: it cannot be changed, so nothing is written."""

    async def record() -> None:
        inner = _Says(_response("", ""))
        async with RecordingAdapter(inner, tmp_path / "s", redactor=Redactor([REAL_KEY])) as recorder:
            with pytest.raises(RecordingRefused) as refused:
                await recorder.complete(LlmRequest(secret, messages=[{"role": "user", "content": "q"}]))
            assert secret not in str(refused.value)

    asyncio.run(record())

    assert_clean(tmp_path / "s", secret)


def test_clean_recordings_keep_their_keys_and_bytes(tmp_path: Path) -> None:
    """Ids, digests and lists of short texts are no secrets."""
    random = Random(4)
    body = {
        "model": "m",
        "input": [f"part {i} of {some(random, HEX, 40)}" for i in range(30)]
        + list("abcdefghijklmnopqrstuvwxyz"),
        "tags": {some(random, HEX, 32): i for i in range(9)},
    }
    with (
        upstream(Given(json.dumps(GOOD).encode())) as url,
        gateway_over(tmp_path / "s", "once", url) as gateway,
    ):
        ask(gateway, body=body)
        assert httpx.get(f"{gateway.url()}/-/ledger").json()["recorded"] == 1
    with gateway_over(tmp_path / "s") as gateway:
        assert ask(gateway, body=body).json() == GOOD


def framed(*events: bytes) -> bytes:
    """As Bedrock streams: each event between a head and a sum that are no text."""
    head = b"\x00\x00\x00\xa5\xff\xfe\x0b:event-type\x07\x00\x05chunk"
    return b"".join(head + event + b"\xde\xad\xbe\xef" for event in events)


def cut(secret: str) -> list[str]:
    return [secret[at : at + 4] for at in range(0, len(secret), 4)]


BINARY: dict[str, Callable[[str], bytes]] = {
    "one text": lambda secret: b"\xff\x00\xfe" + secret.encode() + b"\xff",
    "UTF-16": lambda secret: b"\xff\xfe" + f"It is {secret}.".encode("utf-16-le"),
    "UTF-16 without a mark": lambda secret: f"It is {secret}.".encode("utf-16-be"),
    "frames of JSON": lambda secret: framed(
        *(json.dumps({"delta": {"text": piece}, "p": "ab"}).encode() for piece in cut(secret))
    ),
    "frames of base64": lambda secret: framed(
        *(
            json.dumps({"bytes": b64encode(json.dumps({"delta": piece}).encode()).decode()}).encode()
            for piece in cut(secret)
        )
    ),
}


@pytest.mark.parametrize("content", BINARY.values(), ids=BINARY)
def test_a_secret_in_bytes_is_not_stored(
    tmp_path: Path, secret: str, content: Callable[[str], bytes]
) -> None:
    given = Given(content(secret), "application/octet-stream")
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        assert ask(gateway, "openai/v1/audio/speech").content == given.sent
        assert gateway.run.ledger.refused == [
            "POST /v1/audio/speech: a secret could not be cut out of the answer"
        ]

    assert list((tmp_path / "s").rglob("exchanges/*.json")) == []


def test_a_known_value_that_is_not_ascii_is_found_in_bytes() -> None:
    value = "pä" + "sswörd-Zq77!x"

    assert Redactor([value]).left_in(readings_of(b"\xff\xfe" + value.encode() + b"\xff"))


def test_bytes_without_a_secret_are_stored_as_they_are(tmp_path: Path) -> None:
    content = framed(*(json.dumps({"delta": {"text": word}}).encode() for word in ["so", "it", "goes"]))
    given = Given(content + Random(5).randbytes(9000), "application/octet-stream")
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        ask(gateway, "openai/v1/audio/speech")
    with gateway_over(tmp_path / "s") as gateway:
        assert ask(gateway, "openai/v1/audio/speech").content == given.sent


def test_bytes_that_begin_like_json_over_and_over_take_little_time() -> None:
    def read(size: int) -> None:
        readings_of(b"\xff" + b'{"a":' * size)
        readings_of(b"\xff" + b'{"a":[{"b' * (size // 2))

    assert grows_linearly(lambda: read(50_000), lambda: read(100_000))


@pytest.mark.parametrize("stream", [False, True])
def test_of_several_answers_with_a_secret_each_is_replayed(tmp_path: Path, secret: str, stream: bool) -> None:
    """They stand in the wire alone, so that cannot be dropped."""

    def event(number: int, said: str | None) -> dict[str, Any]:
        delta = {} if said is None else {"content": said}
        choice = {"index": number, "delta": delta, "finish_reason": "stop" if said is None else None}
        return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    whole = {
        "model": "m",
        "choices": [
            {"index": number, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            for number, said in enumerate(["Hello.", f"It is {secret}."])
        ],
    }
    events = [event(number, said) for pair in cut(secret) for number, said in enumerate(["Hello. ", pair])]
    events += [event(0, None), event(1, None)]
    lines = [f"data: {json.dumps(one)}\n\n".encode() for one in events] + [b"data: [DONE]\n\n"]
    given = Given(lines, "text/event-stream") if stream else Given(json.dumps(whole).encode())
    body = {"model": "m", "n": 2, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
    path = "openai/v1/chat/completions"
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        assert ask(gateway, path, body).status_code == 200
    with gateway_over(tmp_path / "s") as gateway:
        replayed = ask(gateway, path, body)

    assert replayed.status_code == 200
    assert replayed.text.count("Hello.") == (len(cut(secret)) if stream else 1)
    assert replayed.text.count("[REDACTED:") == 1
    Store.open(tmp_path / "s", verify="full")
    assert_clean(tmp_path / "s", secret)


@pytest.mark.parametrize("turn", ["output_index", "item_id", "index"])
@pytest.mark.parametrize("other", ["blah ", "Xq7"])
def test_a_secret_in_one_of_two_texts_that_come_in_turns_is_cut_out(
    tmp_path: Path, secret: str, turn: str, other: str
) -> None:
    events = [
        f"data: {json.dumps({turn: which, 'part': {'delta': text}})}\n\n".encode()
        for piece in cut(secret)
        for which, text in ((0, piece), (1, other))
    ]
    given = Given(events, "text/event-stream")
    with upstream(given) as url, gateway_over(tmp_path / "s", "once", url) as gateway:
        assert ask(gateway, "openai/v1/other").content == given.sent
    stored = stored_text(tmp_path / "s")

    assert [piece for piece in cut(secret) if f'{piece}\\"' in stored] == []
    assert "[REDACTED:" in stored
    if " " in other:  # else both together look like one long key
        assert stored.count(other) == len(cut(secret))
