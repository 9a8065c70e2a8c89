"""The suite of ``tests/adapters/`` over servers that not every machine has: Ollama, and two imitations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest

from cortex_replay import InvalidRequest, OllamaAdapter, Upstream
from integration.mocks import Aimock, Llmock, start_aimock, start_llmock
from integration.ollama import Ollama
from tests.adapters import conformance
from tests.adapters.conformance import (
    HELLO,
    QUESTIONS,
    WEATHER,
    AdapterConformance,
    BasicConformance,
    Question,
    Subject,
    assert_says,
)
from tests.servers.tiny_model import MODEL

# Ollama takes a tool choice on the wires of OpenAI and Anthropic, and does nothing about it.
NO_CHOICE: Final = frozenset({"tool_choice"})

OLLAMA: Final[Mapping[str, Callable[[Ollama], Subject]]] = {
    "ollama": lambda server: conformance.ollama(server.url, server.digest),
    "claude": lambda server: conformance.claude(server.url, ignored=NO_CHOICE),
    "chat": lambda server: conformance.chat(
        server.url, ignored=NO_CHOICE | {"top_k"}, schema_extra={"reasoning_effort": "none"}
    ),
    "responses": lambda server: conformance.responses(
        server.url, ignored=NO_CHOICE, schema_extra={"reasoning": {"effort": "none"}}
    ),
}


class TestOllama(AdapterConformance):
    """Through its own API, and through each of the others that it serves."""

    @pytest.fixture(params=OLLAMA)
    def subject(self, request: pytest.FixtureRequest, ollama: Ollama) -> Subject:
        return OLLAMA[request.param](ollama)


def test_a_digest_that_is_not_the_server_s_is_refused(ollama: Ollama) -> None:
    """With both in the message, whole and streamed, and before anything is asked."""
    subject = conformance.ollama(ollama.url, "0" * 64)
    both = f"sha256:{ollama.digest} on the server, not the pinned sha256:{'0' * 64}"
    with subject.adapter.sync as sync:
        with pytest.raises(InvalidRequest, match=both):
            sync.complete(subject.request("hello"))
        with pytest.raises(InvalidRequest, match=both):
            list(sync.stream(subject.request("hello")))


def test_one_digest_does_not_vouch_for_another(ollama: Ollama) -> None:
    """The right one was seen, and the wrong one is refused all the same."""
    right, wrong = (conformance.ollama(ollama.url, digest) for digest in (ollama.digest, "f" * 64))
    with right.adapter.sync as sync:
        assert_says(sync.complete(right.request("hello")), QUESTIONS["hello"], right)
        with pytest.raises(InvalidRequest):
            sync.complete(wrong.request("hello"))
        assert_says(sync.complete(right.request("hello")), QUESTIONS["hello"], right)


def test_a_pinned_model_that_ollama_lacks_is_refused(ollama: Ollama) -> None:
    subject = conformance.ollama(ollama.url, ollama.digest)
    for name in ("other:latest", f"{MODEL}:other"):
        unknown = dataclasses.replace(subject, model=f"{name}@sha256:{ollama.digest}")
        with subject.adapter.sync as sync, pytest.raises(InvalidRequest, match=f"the server has no {name}"):
            sync.complete(unknown.request("hello"))


@pytest.mark.parametrize(
    "model", [MODEL, f"{MODEL}:latest", f"{MODEL}:latest@sha256:0", f"{MODEL}@sha256:{'0' * 64}"]
)
def test_a_model_that_is_not_pinned_is_refused(ollama: Ollama, model: str) -> None:
    subject = dataclasses.replace(conformance.ollama(ollama.url, ollama.digest), model=model)
    with subject.adapter.sync as sync, pytest.raises(InvalidRequest, match="must be pinned"):
        sync.complete(subject.request("hello"))


def test_a_model_need_not_be_pinned_where_that_is_allowed(ollama: Ollama) -> None:
    """Under the name that was asked for, tagged or not; one that is not there is the server's error."""
    pinned = conformance.ollama(ollama.url, ollama.digest)
    adapter = OllamaAdapter(ollama.url, allow_unpinned=True)
    with adapter.sync as sync:
        for model in (MODEL, f"{MODEL}:latest"):
            subject = dataclasses.replace(pinned, model=model, answers_as=model)
            assert_says(sync.complete(subject.request("hello")), QUESTIONS["hello"], subject)
        assert sync.complete(pinned.request("hello")).text == HELLO
        unknown = dataclasses.replace(pinned, model="other")
        with pytest.raises(Upstream, match="'other' not found") as caught:
            sync.complete(unknown.request("hello"))
        assert caught.value.status == 404
        with pytest.raises(Upstream, match="'other' not found"):
            list(sync.stream(unknown.request("hello")))


@pytest.mark.parametrize("api", ["claude", "chat", "responses"])
def test_a_model_that_ollama_lacks_is_its_error_on_every_wire(ollama: Ollama, api: str) -> None:
    subject = dataclasses.replace(OLLAMA[api](ollama), model="other")
    with subject.adapter.sync as sync, pytest.raises(Upstream, match="'other' not found") as caught:
        sync.complete(subject.request("hello"))

    assert (caught.value.status, caught.value.error_type) == (404, "not_found_error")


def _scripted(question: Question) -> dict[str, Any]:
    """What the tiny model says, in the words of aimock."""
    if question.calls:
        return {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in question.calls]}
    reasoning = {} if question.reasoning is None else {"reasoning": question.reasoning}
    counts = {"prompt_tokens": 6, "completion_tokens": 11, "input_tokens": 6, "output_tokens": 11}
    return {"content": question.text, "usage": counts, **reasoning}


IMITATED: Final = ("hello", "unicode", "think", "tool", "schema")
SCRIPT: Final[list[dict[str, Any]]] = [
    {"match": {"hasToolResult": True}, "response": {"content": WEATHER}},
    *(
        {
            "match": {"userMessage": QUESTIONS[name].settings["messages"]},
            "response": _scripted(QUESTIONS[name]),
        }
        for name in IMITATED
    ),
    {"match": {"userMessage": "#forever"}, "response": {"content": "tick tock " * 3000}},
]


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with start_aimock(tmp_path_factory.mktemp("aimock"), SCRIPT, ["--chunk-size", "4"]) as server:
        yield server


AIMOCK: Final[Mapping[str, Callable[..., Subject]]] = {
    "claude": conformance.claude,
    "chat": conformance.chat,
    "responses": conformance.responses,
    "ollama": lambda url, **known: dataclasses.replace(
        conformance.ollama(url, "", **known),
        adapter=OllamaAdapter(url, allow_unpinned=True),
        model=MODEL,
        answers_as=MODEL,
        # Its Ollama neither thinks nor counts.
        ignored=frozenset({"think"}),
        counts_tokens=False,
    ),
}


class TestAimock(AdapterConformance):
    questions: ClassVar[Sequence[str]] = IMITATED

    @pytest.fixture(params=AIMOCK)
    def subject(self, request: pytest.FixtureRequest, aimock: Aimock) -> Subject:
        return AIMOCK[request.param](aimock.url, rejected={"messages": "Nobody told it what to say."})


LLMOCK: Final[Mapping[str, Callable[[str], Subject]]] = {
    "claude": lambda url: conformance.claude(f"{url}/anthropic"),
    "chat": conformance.chat,
    "responses": conformance.responses,
}


@pytest.fixture(scope="module")
def llmock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llmock]:
    with start_llmock(tmp_path_factory.mktemp("llmock")) as server:
        call = {"name": "get_weather", "arguments": {"city": "Paris"}}
        server.script(
            {"type": "reply", "tool_calls": [call], "match": {"tools": True}, "times": None},
            {"type": "reply", "text": HELLO, "match": {"tools": False}, "times": None},
        )
        yield server


class TestLlmock(BasicConformance):
    questions: ClassVar[Sequence[str]] = ("hello", "tool")

    @pytest.fixture(params=LLMOCK)
    def subject(self, request: pytest.FixtureRequest, llmock: Llmock) -> Subject:
        return LLMOCK[request.param](llmock.url)
