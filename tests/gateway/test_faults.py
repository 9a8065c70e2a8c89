"""Faults as each SDK has them in life: it tries again or raises, as it does with its own provider."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from cortex_replay.bindings import Surroundings
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway import Gateway
from tests.adapters.fake_provider import FakeProvider, serving_in_thread
from tests.gateway.conftest import Opened, gateway_over
from tests.gateway.test_recording import ASKED, counted, text
from tests.gateway.upstream import model_server

DUMMY = "cortex-replay-dummy-key"
QUESTION: Any = [{"role": "user", "content": "Tell me three words."}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
Opener = Callable[..., Any]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One question over three SDKs, whole and streamed, and one that calls a tool; not to be changed."""
    root = tmp_path_factory.mktemp("recording") / "store"
    with model_server() as provider, gateway_over(root, "once", provider.url) as gateway:
        sdks = Sdks(gateway, retries=0)
        for ask in (
            sdks.claude,
            sdks.claude_stream,
            sdks.chat,
            sdks.chat_stream,
            sdks.responses_stream,
            sdks.tool,
        ):
            ask()
        sdks.ollama_stream()
        sdks.close()
    return root


@pytest.fixture
def recorded(tmp_path: Path, recording: Path) -> Path:
    """A copy of the recording."""
    return Path(shutil.copytree(recording, tmp_path / "store"))


class Sdks:
    """The providers' own clients, each asking the same."""

    def __init__(self, gateway: Gateway, retries: int = 2, timeout: float = 20.0, fault: str = "") -> None:
        headers = {"x-cortex-replay-fault": fault} if fault else {}
        own: Any = {"api_key": DUMMY, "max_retries": retries, "timeout": timeout, "default_headers": headers}
        self._claude = anthropic.Anthropic(base_url=gateway.url("anthropic"), **own)
        self._openai = openai.OpenAI(base_url=gateway.url("openai") + "/v1", **own)
        self._ollama = ollama.Client(host=gateway.url("ollama"), headers=headers, timeout=timeout)

    def close(self) -> None:
        for client in (self._claude, self._openai, self._ollama._client):
            client.close()

    def claude(self) -> str:
        message = self._claude.messages.create(model="m", max_tokens=9, messages=QUESTION)
        return str(message.content[0].text)  # type: ignore[union-attr]

    def claude_stream(self) -> str:
        with self._claude.messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream:
            return "".join(stream.text_stream)

    def chat(self) -> str:
        answer = self._openai.chat.completions.create(model="m", max_tokens=9, messages=QUESTION)
        return answer.choices[0].message.content or ""

    def chat_stream(self) -> str:
        stream: Any = self._openai.chat.completions.create(
            model="m", max_tokens=9, messages=QUESTION, stream=True
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    def responses_stream(self) -> str:
        stream = self._openai.responses.create(
            model="m", max_output_tokens=9, input="Tell me three words.", stream=True
        )
        return "".join(event.delta for event in stream if event.type == "response.output_text.delta")

    def ollama_stream(self) -> str:
        chunks = self._ollama.chat("m", QUESTION, options={"num_predict": 9}, stream=True)
        return "".join(chunk.message.content or "" for chunk in chunks)

    def tool(self) -> str:
        tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
        answer: Any = self._openai.chat.completions.create(
            model="m", max_tokens=9, messages=QUESTION, tools=tools
        )
        return str(answer.choices[0].message.tool_calls[0].function.arguments)


@pytest.fixture
def faulty(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sdks]]:
    """SDKs before a gateway in which something goes wrong; they try again soon, unless it says when."""
    for sdk in (anthropic, openai):
        monkeypatch.setattr(f"{sdk.__name__}._base_client.INITIAL_RETRY_DELAY", 0.01)
    with gateway_over(recorded) as gateway:
        made: list[Sdks] = []

        def make(fault: str, **options: Any) -> Sdks:
            gateway.faults.set([Fault.parse(fault)] if fault else [])
            made.append(Sdks(gateway, **options))
            return made[-1]

        yield make
        for sdks in made:
            sdks.close()


@pytest.mark.parametrize("fault", ["429:0.01", "500", "529", "503", "reset", "cut"])
@pytest.mark.parametrize("way", ["claude", "chat"])
def test_an_sdk_tries_again_and_has_its_answer(faulty: Callable[..., Sdks], fault: str, way: str) -> None:
    assert getattr(faulty(f"{fault}@1"), way)() == "You said: Tell me three words."


@pytest.mark.parametrize(
    ("fault", "of_claude", "of_openai"),
    [
        ("429:0.01", anthropic.RateLimitError, openai.RateLimitError),
        ("500", anthropic.InternalServerError, openai.InternalServerError),
        ("529", anthropic.InternalServerError, openai.InternalServerError),
        ("401", anthropic.AuthenticationError, openai.AuthenticationError),
        ("reset", anthropic.APIConnectionError, openai.APIConnectionError),
        ("cut", anthropic.APIConnectionError, openai.APIConnectionError),
    ],
)
def test_an_sdk_that_may_not_try_again_raises_what_it_raises_in_life(
    faulty: Callable[..., Sdks], fault: str, of_claude: type[Exception], of_openai: type[Exception]
) -> None:
    sdks = faulty(f"{fault}@always", retries=0)

    with pytest.raises(of_claude):
        sdks.claude()
    with pytest.raises(of_openai):
        sdks.chat()


def test_a_wish_to_be_asked_later_is_granted(faulty: Callable[..., Sdks]) -> None:
    started = time.monotonic()
    faulty("429:0.7@1").claude()

    assert time.monotonic() - started > 0.6


def test_a_client_that_waits_too_long_gives_up(faulty: Callable[..., Sdks]) -> None:
    sdks = faulty("timeout@always", retries=0, timeout=0.3)

    with pytest.raises(anthropic.APITimeoutError):
        sdks.claude()
    with pytest.raises(openai.APITimeoutError):
        sdks.chat()
    with pytest.raises((httpx.TimeoutException, ConnectionError)):
        sdks.ollama_stream()
    assert faulty("timeout@1", retries=1, timeout=0.3).claude()
    stalled = faulty("stall:2@always", retries=0, timeout=0.3)
    with pytest.raises(
        (anthropic.APITimeoutError, httpx.TimeoutException, anthropic.APIConnectionError, Exception)
    ):
        stalled.claude_stream()


@pytest.mark.parametrize("way", ["claude_stream", "chat_stream", "ollama_stream"])
def test_an_error_in_mid_stream_is_raised(faulty: Callable[..., Sdks], way: str) -> None:
    sdks = faulty("error-event:1@always", retries=0)

    with pytest.raises((anthropic.APIError, openai.APIError, ollama.ResponseError)) as caught:
        getattr(sdks, way)()
    assert "on demand" in str(caught.value) or "Overloaded" in str(caught.value)


def test_an_error_in_a_stream_of_responses_is_an_event(recorded: Path) -> None:
    """The SDK hands it on, and does not raise."""
    with gateway_over(recorded, faults=Faults([Fault.parse("error-event:2")])) as gateway:
        client = openai.OpenAI(base_url=gateway.url("openai") + "/v1", api_key=DUMMY, max_retries=0)
        with client:
            asked: Any = {"model": "m", "max_output_tokens": 9, "input": "Tell me three words."}
            events = list(client.responses.create(stream=True, **asked))

    assert events[-1].type == "error"
    assert "on demand" in events[-1].message


@pytest.mark.parametrize("way", ["claude_stream", "chat_stream", "responses_stream", "ollama_stream"])
def test_a_cut_stream_is_an_error_of_the_connection(faulty: Callable[..., Sdks], way: str) -> None:
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|disconnected"):
        getattr(faulty("cut:1@always", retries=0), way)()


@pytest.mark.parametrize("way", ["claude", "chat", "claude_stream", "chat_stream", "ollama_stream"])
def test_what_is_not_json_is_raised_by_whoever_reads_it(faulty: Callable[..., Sdks], way: str) -> None:
    with pytest.raises(
        (json.JSONDecodeError, ValueError, anthropic.APIError, openai.APIError, AttributeError, TypeError)
    ):
        getattr(faulty("malformed-json@always", retries=0), way)()


def test_a_tool_s_arguments_can_be_broken(faulty: Callable[..., Sdks]) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(faulty("malformed-tool@always").tool())
    assert json.loads(faulty("malformed-tool@2").tool()) == {"city": "Paris"}
    assert faulty("malformed-tool@always").claude(), "where no tool is called nothing goes wrong"


@pytest.mark.parametrize("pieces", ["event", "byte", "whole"])
@pytest.mark.parametrize("way", ["claude_stream", "chat_stream", "responses_stream", "ollama_stream"])
def test_other_pieces_are_the_same_answer(faulty: Callable[..., Sdks], way: str, pieces: str) -> None:
    sdks = faulty(f"chunks:{pieces}@always", retries=0)

    assert getattr(sdks, way)() == "You said: Tell me three words."


def test_pieces_on_the_wire(recorded: Path) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": QUESTION, "stream": True}
    with gateway_over(recorded) as gateway:
        counts = []
        for fault in ("chunks:whole", "chunks:event", "chunks:byte"):
            gateway.faults.set([Fault.parse(f"{fault}@always")])
            with httpx.stream("POST", gateway.url("anthropic") + "/v1/messages", json=body) as answer:
                pieces = list(answer.iter_raw())
            counts.append(len(pieces))
            assert b"".join(pieces).count(b"event:") == b"".join(pieces).count(b"\n\n")
        assert counts[0] == 1 < counts[1] < counts[2]


def test_a_fault_in_a_test_s_own_header(recorded: Path) -> None:
    """Each header has its own count, so the second try has the answer."""
    with gateway_over(recorded) as gateway:
        sdks = Sdks(gateway, fault="529@1,429:0.01@2")
        assert sdks.claude() == "You said: Tell me three words."
        assert gateway.faults.struck == {"529@1": 1, "429:0.01@2": 1}
        with pytest.raises(openai.BadRequestError, match="there is no 'nonsense'"):
            Sdks(gateway, fault="nonsense").chat()
        sdks.close()


def test_faults_are_controlled_over_http(recorded: Path) -> None:
    with gateway_over(recorded) as gateway:
        url = f"{gateway.url('-')}/faults"
        listed = httpx.put(url, json={"faults": ["500@2"], "scope": "a"}).json()
        assert listed["faults"] == {"": [], "a": ["500@2"]}
        body = {"model": "m", "max_tokens": 9, "messages": QUESTION}

        def statuses(scope: str) -> list[int]:
            path = gateway.url("anthropic", scope) + "/v1/messages"
            return [httpx.post(path, json=body).status_code for _ in range(3)]

        assert statuses("b") == [200, 200, 200]
        assert statuses("a") == [200, 500, 200]
        assert httpx.get(url).json()["struck"] == {"500@2": 1}
        assert httpx.delete(url).json()["faults"] == {"": []}
        assert statuses("a") == [200, 200, 200]
        for wrong in (
            b"nonsense",
            b"{}",
            b'{"faults": "429"}',
            b'{"faults": ["x"]}',
            b'{"faults": [], "more": 1}',
        ):
            assert httpx.put(url, content=wrong).status_code == 400
        assert httpx.get(f"{gateway.url('-')}/ledger").json()["hits"] == 8
        assert httpx.get(f"{gateway.url('-')}/else").status_code == 404
        assert httpx.get(url, headers={"origin": "http://evil.example"}).status_code == 403


def test_faults_do_not_use_up_an_answer(opened: Opened, provider: FakeProvider) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": QUESTION, "stream": True}
    with opened("once", provider.url) as gateway:
        httpx.post(gateway.url("anthropic") + "/v1/messages", json=body)
    with opened(faults=Faults([Fault.parse("cut:1@1"), Fault.parse("error-event@2")])) as gateway:
        url = gateway.url("anthropic") + "/v1/messages"
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(url, json=body)
        assert b"overloaded_error" in httpx.post(url, json=body).content
        assert b"message_stop" in httpx.post(url, json=body).content


def test_an_answer_that_went_wrong_comes_again_before_the_next_one(opened: Opened) -> None:
    scope = {"x-cortex-replay-scope": "a test"}

    def ask(gateway: Gateway) -> httpx.Response:
        return httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED, headers=scope)

    with serving_in_thread(counted(9)()) as upstream, opened("once", upstream.url) as gateway:
        assert [text(ask(gateway)) for _ in range(2)] == ["answer 1", "answer 2"]
    with opened(faults=Faults([Fault.parse("malformed-json@1"), Fault.parse("chunks:byte@3")])) as gateway:
        with pytest.raises(json.JSONDecodeError):
            ask(gateway).json()
        assert [text(ask(gateway)) for _ in range(2)] == ["answer 1", "answer 2"], "other pieces end a turn"


def test_what_goes_wrong_goes_wrong_with_the_values_of_today(tmp_path: Path) -> None:
    """A stream that breaks off has said the names of this place until then."""

    def told(folder: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": f"look at {folder} and at {folder}/src please"}]
        return {"model": "m", "messages": messages, "stream": True}

    here, there = (Surroundings({"cwd": {"": folder}}) for folder in ("/home/ann/shop", "/builds/7"))
    with (
        model_server() as provider,
        gateway_over(tmp_path, "once", provider.url, surroundings=here) as gateway,
    ):
        httpx.post(f"{gateway.url('openai')}/v1/chat/completions", json=told("/home/ann/shop"))
    with gateway_over(tmp_path, surroundings=there) as gateway:
        url, got = gateway.url("openai") + "/v1/chat/completions", b""
        headers = {"x-cortex-replay-fault": "cut:7"}
        with (
            suppress(httpx.RemoteProtocolError),
            httpx.stream("POST", url, json=told("/builds/7"), headers=headers) as answer,
        ):
            for data in answer.iter_bytes():
                got += data
        whole = httpx.post(url, json=told("/builds/7"))

    assert b"/builds/7" in got
    assert b"please" not in got
    assert b"please" in whole.content
    assert "⟦".encode() not in got + whole.content
