"""What versions of vcrpy have written, by hand."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store
from cortex_replay.wire import WIRES
from tests.cassettes.conftest import ASKED, Imported, interaction, reasons, said, write

BODY = json.dumps(said("Hi!")).encode()
JSON = {"content-type": ["application/json"]}


def in_code(coding: str) -> dict[str, Any]:
    return {**JSON, "content-encoding": [coding]}


def response(**fields: Any) -> dict[str, Any]:
    return {"status": {"code": 200, "message": "OK"}, "headers": JSON, **fields}


RESPONSES: dict[str, dict[str, Any]] = {
    "text": response(body={"string": BODY.decode()}),
    "bytes": response(body={"string": BODY}),
    "with an encoding": response(body={"string": BODY.decode(), "encoding": "utf-8"}),
    "base64": response(body={"base64_string": base64.b64encode(BODY).decode()}),
    "gzip": response(body={"string": gzip.compress(BODY)}, headers={**JSON, "Content-Encoding": ["gzip"]}),
    "deflate": response(body={"string": zlib.compress(BODY)}, headers=in_code("deflate")),
    "raw deflate": response(
        body={"string": zlib.compress(BODY, wbits=-15)}, headers={**JSON, "content-encoding": "deflate"}
    ),
    "two encodings": response(
        body={"string": gzip.compress(zlib.compress(BODY))},
        headers=in_code("deflate, gzip"),
    ),
    "decoded, and the header kept": response(
        body={"string": BODY.decode()},
        headers={**JSON, "content-encoding": ["br"], "content-length": ["999"]},
    ),
    "httpx before 6": {
        "content": BODY.decode(),
        "headers": {"content-type": "application/json", "content-encoding": "gzip"},
        "http_version": "HTTP/1.1",
        "status_code": 200,
    },
    "no headers": response(body={"string": BODY.decode()}, headers={}),
    "parsed, by pydantic-ai": {**response(), "parsed_body": said("Hi!")},
    "an object": response(body=said("Hi!")),
    "aiohttp": response(body={"string": BODY}, url="https://api.anthropic.com/v1/messages"),
    "status as a number": {**response(body={"string": BODY}), "status": 200},
}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"body": json.dumps(ASKED)},
    "bytes": {"body": json.dumps(ASKED).encode()},
    "an object": {"body": ASKED},
    "parsed, by pydantic-ai": {"body": None, "parsed_body": ASKED},
    "in pieces": {
        "body": [b'{"model": "m", "max_tokens": 9,', b'"messages": [{"role": "user", "content": "Hello."}]}']
    },
    "written anew by a filter": {
        "body": json.dumps(ASKED),
        "headers": {"Content-Length": [str(len(json.dumps(ASKED, separators=(",", ":"))))]},
    },
    "headers that are no lists": {"body": json.dumps(ASKED), "headers": {"content-type": "application/json"}},
}


def greeting(root: Path) -> str:
    store = Store.open(root)
    (stored,) = store.list()
    return store.get(stored.model, stored.prompt_hash).answers[0].text


@pytest.mark.parametrize("answered", RESPONSES.values(), ids=RESPONSES)
def test_answers(answered: dict[str, Any], imported: Imported, tmp_path: Path) -> None:
    report = imported(write(tmp_path / "a.yaml", {**interaction(), "response": answered}))

    assert (report["exit"], report["answers"]) == (0, 1), report
    assert greeting(tmp_path / "store") == "Hi!"


@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
def test_requests(asked: dict[str, Any], imported: Imported, tmp_path: Path) -> None:
    made = interaction()
    made["request"] = {
        "method": "POST",
        "uri": "https://api.anthropic.com/v1/messages",
        "headers": {},
        **asked,
    }
    report = imported(write(tmp_path / "a.yaml", made))

    assert (report["exit"], report["answers"]) == (0, 1), report
    (stored,) = Store.open(tmp_path / "store").list()
    assert stored.prompt_hash == WIRES["anthropic-messages"].lift(ASKED).prompt_hash()


def test_before_version_1(imported: Imported, tmp_path: Path) -> None:
    """A list, an address in four parts, headers as lines."""
    old = [
        {
            "request": {
                "method": "POST",
                "protocol": "https",
                "host": "api.anthropic.com",
                "port": 443,
                "path": "/v1/messages",
                "headers": {"accept": "*/*"},
                "body": json.dumps(ASKED),
            },
            "response": {
                "status": {"code": 200, "message": "OK"},
                "headers": ["Content-Type: application/json\r\n", "X-Old: yes\r\n"],
                "body": {"string": BODY.decode()},
            },
        }
    ]
    (tmp_path / "old.json").write_text(json.dumps(old))

    assert imported(tmp_path / "old.json")["exit"] == 0
    assert greeting(tmp_path / "store") == "Hi!"


def test_json_cassettes(imported: Imported, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "interactions": [interaction()]}, indent=4))

    assert imported(tmp_path / "a.json")["exit"] == 0
    assert greeting(tmp_path / "store") == "Hi!"


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": said("", content=[], stop_reason=None)},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "!"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
SSE = {"content-type": ["text/event-stream; charset=utf-8"]}


@pytest.mark.parametrize("headers", [SSE, {}], ids=["with its type", "with no headers left"])
def test_a_stream_is_cut_into_its_events(headers: Any, imported: Imported, tmp_path: Path) -> None:
    asked = {**ASKED, "stream": True}
    report = imported(write(tmp_path / "a.yaml", interaction(asked, STREAM, headers=headers)))
    store = Store.open(tmp_path / "store")
    wire: Any = store.get(*store.list()[0][:2]).answers[0].wire

    assert report["exit"] == 0
    assert [event["at_ms"] for event in wire["events"]] == [0] * 7
    assert "".join(event["text"] for event in wire["events"]) == STREAM
    assert wire["headers"]["content-type"].startswith("text/event-stream")
    assert greeting(tmp_path / "store") == "Hi!"


NOT_CONVERTED: dict[str, tuple[Any, str]] = {
    "another host": (interaction(uri="https://api.stripe.com/v1/charges"), "no model is known at this host"),
    "not HTTP": (interaction(uri="ftp://api.anthropic.com/v1/messages"), "not a call over HTTP"),
    "no address": (interaction(uri="https://[/v1/messages"), "not a URL"),
    "half of a gzip": (
        interaction(answer=gzip.compress(BODY)[:-20], headers=in_code("gzip")),
        "cut off",
    ),
    "no gzip": (
        interaction(answer=b"\xff\xfe", headers=in_code("gzip")),
        "not the gzip",
    ),
    "an unknown encoding": (
        interaction(answer=b"\xff\xfe", headers=in_code("lzma")),
        "not known here: 'lzma'",
    ),
    "a bomb": (
        interaction(answer=gzip.compress(b"a" * (65 * 2**20)), headers=in_code("gzip")),
        "more than 64 MiB",
    ),
    "a filtered body": (interaction("<FILTERED>"), "what was asked is not in the cassette"),
    "a body that is gone": (interaction(None), "what was asked is not in the cassette"),
    "a body that is gone, with its length": (
        interaction(None, asked_headers={"content-length": ["80"]}),
        "the body was filtered out",
    ),
    "an emptied body": (interaction({"messages": "REDACTED"}), "what was asked is not in the cassette"),
    "half of a file": (
        interaction(
            None,
            "half of i",
            method="GET",
            uri="https://api.openai.com/v1/files/1/content",
            headers={"content-type": ["text/plain"], "content-length": ["100"]},
        ),
        "cut off: 9 of 100 bytes",
    ),
    "a question without a bottom": (
        interaction(f'{{"model": "m", "messages": {"[" * 9000}{"]" * 9000}}}'),
        "what was asked is not in the cassette",
    ),
    "no status": ({**interaction(), "response": {"body": {"string": ""}}}, "no status"),
    "nothing": ({}, "not a request and a response"),
    "no object": ("text", "not a request and a response"),
}


AS_IT_CAME: dict[str, Any] = {
    "an error": interaction(status=529, answer={"type": "error"}),
    "a redirect": interaction(status=307),
    "half an answer": interaction(answer=BODY.decode()[:-9]),
    "no JSON": interaction(answer="<html>"),
    "no message": interaction(answer={"id": "x", "type": "message"}),
    "half of a stream": interaction({**ASKED, "stream": True}, STREAM[:-50], headers=SSE),
    "an error in a stream": interaction(
        {**ASKED, "stream": True}, 'event: error\ndata: {"type": "error", "error": {}}\n\n', headers=SSE
    ),
    "more after a stream": interaction(
        {**ASKED, "stream": True}, f"{STREAM}event: x\ndata: {{}}\n\n", headers=SSE
    ),
    "an answer without a bottom": interaction(answer=f'{BODY.decode()[:-1]}, "x": {"[" * 900}{"]" * 900}}}'),
    "half of a list": interaction(None, '{"data": [', method="GET", uri="https://api.openai.com/v1/models"),
    "too many calls": interaction(None, {}, method="GET", uri="https://api.openai.com/v1/models", status=429),
}


@pytest.mark.parametrize("given", AS_IT_CAME.values(), ids=AS_IT_CAME)
def test_what_is_no_good_answer_is_kept_as_it_came(given: Any, imported: Imported, tmp_path: Path) -> None:
    """The test that recorded it wanted it."""
    report = imported(write(tmp_path / "a.yaml", given))
    store = Store.open(tmp_path / "store")
    rows = [*(tmp_path / "store/fixtures/exchanges").iterdir()]

    assert (report["exit"], report["failures"] + report["exchanges"]) == (0, 1)
    assert len(store) == 0
    (wire,) = [json.loads(row.read_bytes())["wire"] for row in rows]
    body = wire["body"] if "body" in wire else "".join(event["text"] for event in wire["events"])
    assert (wire["status"], body) == (
        given["response"]["status"]["code"],
        given["response"]["body"]["string"],
    )


@pytest.mark.parametrize(("given", "reason"), NOT_CONVERTED.values(), ids=NOT_CONVERTED)
def test_what_cannot_be_converted_is_listed(
    given: Any, reason: str, imported: Imported, tmp_path: Path
) -> None:
    """With its file, its number and the reason; what stands beside it is converted all the same."""
    good = interaction({**ASKED, "system": "Be brief."}, said("Good."))
    file = write(tmp_path / "a.yaml", good, given)
    before = file.read_bytes()
    report = imported(file)
    (left,) = report["not_converted"]

    assert (report["exit"], report["answers"], report["interactions"]) == (4, 1, 2)
    assert (left["file"], left["number"]) == (str(file), 2)
    assert re.search(reason, left["reason"])
    assert greeting(tmp_path / "store") == "Good."
    assert file.read_bytes() == before


@pytest.mark.parametrize(("coding", "module"), [("br", "brotli"), ("zstd", "zstandard")])
def test_compression_that_needs_a_package(
    coding: str, module: str, imported: Imported, tmp_path: Path
) -> None:
    """With it, the answer is read within the same limits; without it, the answer is listed."""
    try:
        compress = import_module(module).compress
    except ImportError:
        report = imported(
            write(tmp_path / "a.yaml", interaction(answer=b"\xff\x00", headers=in_code(coding)))
        )
        assert reasons(report) == [f"the answer is compressed with {coding}: install {module} to import it"]
        return
    bodies = [compress(BODY), compress(BODY)[:-20], compress(b"a" * (65 * 2**20)), b"\xff\xfe\xfd"]
    report = imported(
        write(tmp_path / "a.yaml", *[interaction(answer=body, headers=in_code(coding)) for body in bodies])
    )
    assert report["answers"] == 1
    assert [reason.partition(":")[0] for reason in reasons(report)] == [
        "the answer is cut off",
        "the answer would have more than 64 MiB",
        f"the answer is not the {coding} that it should be",
    ]
