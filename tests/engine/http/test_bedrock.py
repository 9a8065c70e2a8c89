"""Bedrock behind the engine: who signs, which region is asked, and what of it is stored."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

import cortex_replay
from cortex_replay import ConfigError, LlmRequest, Store
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.engine.http.aws import is_for_server, regional, signed_headers, signer_of
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer
from cortex_replay.providers import DUMMY_KEY, endpoint_of
from cortex_replay.store.answers import answer_problem
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture_json import fixture_in
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import EVENT_STREAM, event_message
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, stream, whole
from tests.engine.http.harness import Got, ask, request_for, run_over
from tests.gateway.upstream import model_server

CLAUDE: Final = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA: Final = "us.amazon.nova-lite-v1:0"
CONVERSE: Final = "/bedrock/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
HELLO: Final = {"messages": [{"role": "user", "content": [{"text": "Say hello."}]}]}
SECRET: Final = "sEcretOfTheUserWhoSigns0123456789abcdefg"
TOKEN: Final = "tOkenOfTheSession0123456789abcdefghijklm"
KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "AKIAUSER",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
    "AWS_BEARER_TOKEN_BEDROCK": "",
}
SIGNATURE: Final = (
    "AWS4-HMAC-SHA256 Credential={key}/20261116/eu-west-1/bedrock/aws4_request, "
    "SignedHeaders=accept-encoding;content-type;host;x-amz-date, Signature=0123abcd"
)
ANSWER: Final = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
}


@pytest.fixture
def amazon() -> Iterator[FakeProvider]:
    with serving_in_thread(whole(ANSWER)) as provider:
        yield provider


def signed(key: str = DUMMY_KEY) -> list[tuple[str, str]]:
    """The headers of a client of the gateway."""
    return [
        ("host", "127.0.0.1:4000"),
        ("authorization", SIGNATURE.format(key=key)),
        ("x-amz-date", "20261116T000000Z"),
        ("x-amz-security-token", "of-the-client-0123456789"),
        ("amz-sdk-invocation-id", "3fc979b9-ee67-4fb3-85f2-bb9b3ad4ead4"),
    ]


def test_a_call_through_the_gateway_is_signed_anew(amazon: FakeProvider, tmp_path: Path) -> None:
    """For the server that is asked, with the user's credentials; nothing is left of the client's own."""
    with run_over(tmp_path, "once", amazon.url, environment=KEYS) as run:
        got = ask(run, "POST", CONVERSE, HELLO, signed())

    (received,) = amazon.received
    assert got.json == ANSWER
    assert received.path == CONVERSE.removeprefix("/bedrock")
    assert received.body == json.dumps(HELLO, separators=(",", ":")).encode()
    assert "Credential=AKIAUSER/" in received.headers["authorization"]
    assert "/eu-west-1/bedrock/aws4_request" in received.headers["authorization"]
    assert received.headers["x-amz-security-token"] == TOKEN
    assert received.headers["x-amz-date"] != "20261116T000000Z"
    assert DUMMY_KEY not in str(received.headers)


def test_neither_key_nor_disk_knows_of_a_signature(amazon: FakeProvider, tmp_path: Path) -> None:
    with run_over(tmp_path, "once", amazon.url, environment=KEYS) as run:
        ask(run, "POST", CONVERSE, HELLO, signed())
    with run_over(tmp_path) as run:
        assert ask(run, "POST", CONVERSE, HELLO).json == ANSWER

    stored = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    for trace in (SECRET, TOKEN, "AKIAUSER", "AWS4", "0123abcd", "x-amz-date", "invocation", "of-the-client"):
        assert trace not in stored


def test_a_bearer_token_goes_instead_of_a_signature(amazon: FakeProvider, tmp_path: Path) -> None:
    bearer = {**KEYS, "AWS_BEARER_TOKEN_BEDROCK": "bearer-of-the-user-0123456789"}
    with run_over(tmp_path, "once", amazon.url, environment=bearer) as run:
        ask(run, "POST", CONVERSE, HELLO, signed())

    headers = amazon.received[0].headers
    assert headers["authorization"] == "Bearer bearer-of-the-user-0123456789"
    assert "x-amz-security-token" not in headers


def test_without_credentials_amazon_is_not_asked(tmp_path: Path) -> None:
    """It would refuse a signature for another host, and say nothing that helps."""
    nothing = dict.fromkeys(KEYS, "")
    with run_over(tmp_path, "once", environment=nothing) as run:
        for headers in (signed("AKIASOMEBODY"), signed(), [("authorization", f"Bearer {DUMMY_KEY}")], []):
            got = ask(run, "POST", CONVERSE, HELLO, headers)
            assert got.status == 400
            assert "export-credentials" in got.json["message"]


def test_a_signature_for_the_server_goes_on_as_it_is(amazon: FakeProvider, tmp_path: Path) -> None:
    """In the client's own process: with every header that it covers, even those that a relay leaves out."""
    headers = {
        "authorization": SIGNATURE.format(key="AKIACLIENT"),
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "x-amz-date": "20261116T000000Z",
    }
    body = json.dumps(HELLO, indent=1).encode()
    path = f"/model/{CLAUDE}/converse"
    with cortex_replay.intercept(tmp_path, "once"):
        live = httpx.post(f"{amazon.url}{path}", content=body, headers=headers)
    with cortex_replay.intercept(tmp_path, "replay"):
        replayed = httpx.post(f"{amazon.url}{path}", content=body, headers=headers)

    (received,) = amazon.received
    assert live.json() == replayed.json() == ANSWER
    assert (received.path, received.body) == (path, body)
    assert {name: received.headers[name] for name in headers} == headers
    assert received.headers["host"] == amazon.url.removeprefix("http://")


def at(url: str, *headers: tuple[str, str]) -> Call:
    route = Route("bedrock", "/model/m/converse", "bedrock-converse")
    return Call("POST", route, headers=headers, server=UpstreamServer("bedrock@x", "bedrock", url))


def test_a_signature_is_for_one_host() -> None:
    headers = [
        ("host", "bedrock-runtime.eu-west-1.amazonaws.com"),
        ("authorization", SIGNATURE.format(key="A")),
    ]
    here = UpstreamServer("bedrock", "bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com")
    other = UpstreamServer("bedrock", "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com")

    assert is_for_server(at(here.base_url, *headers), here)
    assert not is_for_server(at(here.base_url, *headers), other)
    assert not is_for_server(at(here.base_url, headers[0], ("authorization", "Bearer x")), here)
    assert not is_for_server(
        at(here.base_url, headers[0], ("authorization", SIGNATURE.format(key=DUMMY_KEY))), here
    )
    assert signed_headers(at(here.base_url, *headers)) == {
        "accept-encoding",
        "content-type",
        "host",
        "x-amz-date",
    }


@pytest.mark.parametrize(
    ("environment", "authorization", "host"),
    [
        ({}, "", "bedrock-runtime.us-east-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "ap-south-1"}, "", "bedrock-runtime.ap-south-1.amazonaws.com"),
        (
            {"AWS_REGION": "us-gov-west-1", "AWS_DEFAULT_REGION": "ap-south-1"},
            "",
            "bedrock-runtime.us-gov-west-1.amazonaws.com",
        ),
        ({"AWS_REGION": "us-west-2"}, SIGNATURE, "bedrock-runtime.eu-west-1.amazonaws.com"),
        ({"AWS_REGION": "cn-north-1"}, "", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ({"AWS_REGION": "evil.example/"}, "", "bedrock-runtime.us-east-1.amazonaws.com"),
        (
            {},
            SIGNATURE.replace("eu-west-1", "evil-example"),
            "bedrock-runtime.us-east-1.amazonaws.com",
        ),
    ],
)
def test_the_region_is_the_client_s_and_then_the_user_s(
    environment: dict[str, str], authorization: str, host: str
) -> None:
    """And a region is one: no other text becomes part of a host that gets a signature."""
    server = Upstreams(Settings())["bedrock"]

    assert regional(server, environment, authorization).base_url == f"https://{host}"


def test_a_server_that_somebody_named_is_asked_whatever_the_region() -> None:
    named = Upstreams(
        Settings(), {}, {"bedrock": "https://vpce-1.bedrock-runtime.eu-north-1.vpce.amazonaws.com"}
    )

    assert regional(named["bedrock"], {"AWS_REGION": "us-west-2"}) is named["bedrock"]
    assert signer_of(named["bedrock"], KEYS) is None, (
        "credentials are not for servers named on a command line"
    )


def test_a_project_s_server_gets_no_signature_without_consent(tmp_path: Path) -> None:
    """Not even one of Amazon's, where the access key and the token of a session would go along."""
    origin = ProjectOrigin(tmp_path, frozenset(["base_url"]))
    for url in ("https://bedrock-runtime.eu-west-1.amazonaws.com", "https://amazonaws.com.evil.example"):
        theirs = ProviderSettings(kind="bedrock", base_url=url, project=origin)
        mine = ProviderSettings(kind="bedrock", base_url=url)
        is_amazon = "evil" not in url
        if is_amazon:
            with pytest.raises(ConfigError, match="trust"):
                UpstreamServer("bedrock", "bedrock", url, theirs).credentials(KEYS)
        else:
            assert UpstreamServer("bedrock", "bedrock", url, theirs).credentials(KEYS) is None
        found = UpstreamServer("bedrock", "bedrock", url, mine).credentials(KEYS)
        assert (found is not None) == is_amazon


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("protocol", "model"), [("bedrock-anthropic", CLAUDE), ("bedrock-nova", NOVA)])
def test_what_a_model_says_itself_is_recorded_and_comes_again(
    tmp_path: Path, protocol: str, model: str, is_stream: bool
) -> None:
    """Through InvokeModel, byte for byte; and then through Converse, which asks the same."""
    request = LlmRequest(model=model, messages=request_for("Say hello.").messages, max_tokens=64)

    def asked(run: Any, protocol: str) -> Got:
        path, body = endpoint_of(protocol, stream=is_stream).split(WIRES[protocol].lower(request))
        return ask(run, "POST", f"/bedrock{path}", body)

    with model_server() as server, run_over(tmp_path, "once", server.url) as run:
        live = asked(run, protocol)
        assert (run.ledger.live, run.ledger.recorded, run.ledger.refused) == (1, 1, [])
    with run_over(tmp_path) as run:
        replayed, over_converse = asked(run, protocol), asked(run, "bedrock-converse")

    assert not check_store(DirectorySource(tmp_path)).findings
    assert live.body == replayed.body
    assert live.headers["content-type"] == (EVENT_STREAM if is_stream else "application/json")
    assert over_converse.status == 200
    assert b"hello" in over_converse.body


def test_a_model_of_another_maker_is_recorded_as_it_is(tmp_path: Path) -> None:
    """Its body is its own, so that it has no other form; a stream of it is kept as messages."""
    encoded = base64.b64encode(b'{"generation":"Hi."}').decode()
    raw = event_message("chunk", json.dumps({"bytes": encoded}, separators=(",", ":")).encode())
    path = "/bedrock/model/meta.llama3-8b-instruct-v1%3A0/invoke-with-response-stream"
    with (
        serving_in_thread(stream([raw[:20], raw[20:]], EVENT_STREAM)) as server,
        run_over(tmp_path, "once", server.url) as run,
    ):
        live = ask(run, "POST", path, {"prompt": "Hi"})
    with run_over(tmp_path) as run:
        replayed = ask(run, "POST", path, {"prompt": "Hi"})
        missed = ask(run, "POST", path, {"prompt": "Ho"})

    (file,) = tmp_path.rglob("exchanges/*.json")
    (event,) = json.loads(file.read_bytes())["wire"]["events"]
    assert live.body == replayed.body == raw
    assert event["message"]["chunk"]["bytes"] == '{"generation":"Hi."}'
    assert missed.status == 424
    assert "message" in missed.json


@pytest.mark.parametrize("is_chunk", [False, True], ids=["event", "chunk"])
def test_a_secret_in_a_message_is_not_stored(tmp_path: Path, is_chunk: bool) -> None:
    """Not in the text of an answer, nor where only a client looks; what is given is a stream all the same."""
    protocol, model = ("bedrock-nova", NOVA) if is_chunk else ("bedrock-converse", CLAUDE)
    said: list[dict[str, Any]] = [
        {"messageStart": {"role": "assistant", "trace": SECRET}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": f"It is {SECRET[:20]}"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": SECRET[20:]}}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}},
    ]
    raw = b""
    for event in said:
        ((name, payload),) = event.items()
        encoded = base64.b64encode(json.dumps(event).encode()).decode()
        raw += (
            event_message("chunk", json.dumps({"bytes": encoded}, separators=(",", ":")).encode())
            if is_chunk
            else event_message(name, json.dumps(payload).encode())
        )
    request = LlmRequest(model=model, messages=request_for("Who?").messages)
    path, body = endpoint_of(protocol, stream=True).split(WIRES[protocol].lower(request, stream=True))
    with (
        serving_in_thread(stream([raw], EVENT_STREAM)) as server,
        run_over(tmp_path, "once", server.url, environment=KEYS) as run,
    ):
        assert ask(run, "POST", f"/bedrock{path}", body).body == raw
    with run_over(tmp_path) as run:
        replayed = ask(run, "POST", f"/bedrock{path}", body)

    stored = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    decoder = WIRES[protocol].stream_decoder(model)
    last = [*decoder.feed(replayed.body), *decoder.finish()][-1].response
    assert SECRET not in stored
    assert base64.b64encode(SECRET.encode())[3:40].decode() not in stored
    assert len(Store.open(tmp_path)) == 1
    assert last is not None
    assert last.text.startswith("It is ")
    assert SECRET not in last.text


def test_an_error_comes_again_with_the_name_that_sdks_read(tmp_path: Path) -> None:
    script = whole({"message": "Slow down."}, 429, x_amzn_errortype="ThrottlingException:http://internal/")
    with (
        serving_in_thread(script) as server,
        run_over(tmp_path, "once", server.url, record_failures=True) as run,
    ):
        live = ask(run, "POST", CONVERSE, HELLO)
    with run_over(tmp_path) as run:
        replayed = ask(run, "POST", CONVERSE, HELLO)

    assert (replayed.status, replayed.body) == (live.status, live.body) == (429, b'{"message": "Slow down."}')
    assert replayed.headers["x-amzn-errortype"] == "ThrottlingException:http://internal/"


def test_a_message_that_was_changed_is_found(tmp_path: Path) -> None:
    """By what it says; and by what it is, once somebody mends the index."""
    request = LlmRequest(model=CLAUDE, messages=request_for("Say hello.").messages)
    wire = WIRES["bedrock-converse"]
    path, body = endpoint_of("bedrock-converse", stream=True).split(wire.lower(request, stream=True))
    with model_server() as server, run_over(tmp_path, "once", server.url) as run:
        ask(run, "POST", f"/bedrock{path}", body)
    (file,) = tmp_path.rglob("fixtures/**/*.json")
    document = json.loads(file.read_bytes())
    for event in document["wire"]["events"]:
        event["message"]["payload"] = event["message"]["payload"].replace("hello", "goodbye")

    (answer,) = fixture_in(document).answers
    assert answer_problem(answer, CLAUDE) == (
        "wire-mismatch",
        "the text of its response is not what its wire says",
    )
    document["wire"]["events"][0]["message"]["headers"][":message-type"] = 5
    (answer,) = fixture_in(document).answers
    assert answer_problem(answer, CLAUDE) == (
        "wire-undecodable",
        "its wire cannot be decoded (response parse: the headers of one of its messages make no sense)",
    )
