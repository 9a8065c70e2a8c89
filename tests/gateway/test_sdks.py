"""The providers' own SDKs, as they are: recorded through the gateway, replayed with the upstream gone.

The programs know nothing of recordings. What a client prints the second time is what it printed the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

from cortex_replay import ClaudeAdapter, LlmRequest, Store
from cortex_replay.gateway import Gateway
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import FakeProvider
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY
from tests.servers.tiny_model import MODEL

DUMMY = "cortex-replay-dummy-key"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANSWER = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
Program = Callable[[Gateway, str], list[Any]]


_OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def _closed_clients() -> Iterator[None]:
    """The SDKs' clients are closed by whoever made them."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def a_claude(gateway: Gateway) -> anthropic.Anthropic:
    _OPEN.append(anthropic.Anthropic(base_url=gateway.url("anthropic"), api_key=DUMMY))
    return _OPEN[-1]  # type: ignore[no-any-return]


def an_openai(gateway: Gateway) -> openai.OpenAI:
    _OPEN.append(openai.OpenAI(base_url=gateway.url("openai") + "/v1", api_key=DUMMY))
    return _OPEN[-1]  # type: ignore[no-any-return]


def an_ollama(gateway: Gateway) -> ollama.Client:
    client = ollama.Client(host=gateway.url("ollama"))
    _OPEN.append(client._client)
    return client


def claude(gateway: Gateway, model: str) -> list[Any]:
    client = a_claude(gateway)
    asked: Any = {"model": model, "max_tokens": 32}
    plain = client.messages.create(messages=[{"role": "user", "content": "Hello."}], **asked)
    with client.messages.stream(messages=[{"role": "user", "content": "Hello, stream."}], **asked) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    tools: Any = [{"name": "get_weather", "description": "Weather.", "input_schema": CITY}]
    question: Any = {"role": "user", "content": "Weather in Paris?"}
    called = client.messages.create(messages=[question], tools=tools, **asked)
    made: Any = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    turns: Any = [
        question,
        {"role": "assistant", "content": [made]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 C"}]},
    ]
    told = client.messages.create(messages=turns, tools=tools, **asked)
    return [
        [block.model_dump() for block in plain.content],
        [plain.id, plain.stop_reason, plain.usage.output_tokens],
        texts,
        [final.id, final.stop_reason],
        [block.model_dump() for block in called.content],
        [block.model_dump() for block in told.content],
    ]


def chat(gateway: Gateway, model: str) -> list[Any]:
    client = an_openai(gateway)
    asked: Any = {"model": model, "max_tokens": 32, "temperature": 0}
    plain = client.chat.completions.create(messages=[{"role": "user", "content": "Hello."}], **asked)
    events = list(
        client.chat.completions.create(
            messages=[{"role": "user", "content": "Hello, stream."}],
            stream=True,
            stream_options={"include_usage": True},
            **asked,
        )
    )
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
    question: Any = {"role": "user", "content": "Weather in Paris?"}
    called = client.chat.completions.create(messages=[question], tools=tools, **asked)
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    turns: Any = [
        question,
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18 C"},
    ]
    told = client.chat.completions.create(messages=turns, tools=tools, **asked)
    schema: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER, "strict": True}}
    structured = client.chat.completions.create(
        messages=[{"role": "user", "content": "As JSON."}], response_format=schema, **asked
    )
    return [
        plain.model_dump(),
        [event.model_dump() for event in events],
        called.model_dump(),
        told.model_dump(),
        structured.choices[0].message.content,
        [model.id for model in client.models.list()],
    ]


def responses(gateway: Gateway, model: str) -> list[Any]:
    client = an_openai(gateway)
    plain = client.responses.create(model=model, input="Hello.", max_output_tokens=32)
    events = list(
        client.responses.create(model=model, input="Hello, stream.", max_output_tokens=32, stream=True)
    )
    return [plain.id, plain.output_text, [event.type for event in events]]


def local(gateway: Gateway, model: str) -> list[Any]:
    client = an_ollama(gateway)
    options = {"num_predict": 32, "temperature": 0}
    plain = client.chat(model, [{"role": "user", "content": "Hello."}], options=options)
    chunks = list(
        client.chat(model, [{"role": "user", "content": "Hello, stream."}], options=options, stream=True)
    )
    generated = client.generate(model, "Once upon a time", options=options)
    pieces = list(client.generate(model, "Twice upon a time", options=options, stream=True))
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
    called = client.chat(model, [{"role": "user", "content": "Weather?"}], tools=tools, options=options)
    structured = client.chat(model, [{"role": "user", "content": "As JSON."}], format=ANSWER, options=options)
    return [
        plain.model_dump(),
        [chunk.model_dump() for chunk in chunks],
        generated.response,
        [piece.response for piece in pieces],
        called.model_dump(),
        structured.message.content,
        [model.model for model in client.list().models],
    ]


def concurrent(gateway: Gateway, model: str) -> list[Any]:
    """Sixteen calls at once, streamed and not, by both SDKs."""

    async def ask() -> list[Any]:
        claude = anthropic.AsyncAnthropic(base_url=gateway.url("anthropic"), api_key=DUMMY, max_retries=0)
        chat = openai.AsyncOpenAI(base_url=gateway.url("openai") + "/v1", api_key=DUMMY, max_retries=0)

        async def one(i: int) -> str:
            message: Any = [{"role": "user", "content": f"Number {i}."}]
            if i % 2:
                answer = await chat.chat.completions.create(model=model, messages=message, max_tokens=16)
                return answer.choices[0].message.content or ""
            async with claude.messages.stream(model=model, max_tokens=16, messages=message) as stream:
                return await stream.get_final_text()

        async with claude, chat:
            return list(await asyncio.gather(*map(one, range(16))))

    return asyncio.run(ask())


@pytest.mark.parametrize("program", [claude, chat, responses, local, concurrent])
def test_what_was_recorded_comes_again_with_the_upstream_gone(
    opened: Opened, provider: FakeProvider, program: Program, tmp_path: Path
) -> None:
    with opened("once", provider.url) as gateway:
        first = program(gateway, "m")
        recorded = gateway.run.ledger
    calls = len(provider.received)
    with opened("replay", "http://127.0.0.1:9") as gateway:
        again = program(gateway, "m")
        ledger = gateway.run.ledger

    assert again == first
    assert (ledger.hits, ledger.misses, ledger.live) == (calls, [], 0)
    assert (recorded.recorded, recorded.refused) == (calls, [])
    assert REAL_KEY.encode() not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert Store.open(tmp_path / "store") is not None


@pytest.mark.parametrize("program", [claude, chat, responses, concurrent])
def test_a_real_model_s_answers_come_again_with_its_server_gone(
    opened: Opened, llamacpp: str, program: Program
) -> None:
    with opened("once", llamacpp) as gateway:
        first = program(gateway, MODEL)
        assert gateway.run.ledger.refused == []
    with opened("replay", "http://127.0.0.1:9") as gateway:
        assert program(gateway, MODEL) == first
        assert gateway.run.ledger.misses == []


def test_the_adapter_and_the_sdk_ask_the_same(opened: Opened, provider: FakeProvider, tmp_path: Path) -> None:
    """One key and the same canonical bytes; what the SDK recorded, the adapter's request finds."""
    with opened("once", provider.url) as gateway:
        client = a_claude(gateway)
        answer = client.messages.create(
            model="m", max_tokens=64, system="Be brief.", messages=[{"role": "user", "content": "Hello."}]
        )
    request = LlmRequest("m", "Be brief.", "Hello.", None, 64)
    adapter = ClaudeAdapter(REAL_KEY, base_url=provider.url)
    adapter.sync.complete(request)
    by_sdk, by_adapter = (WIRES["anthropic-messages"].lift(call.json) for call in provider.received)

    assert by_sdk.canonical_bytes() == by_adapter.canonical_bytes() == request.canonical_bytes()
    stored = Store.open(tmp_path / "store").get("m", request.prompt_hash())
    assert stored.answers[0].text == answer.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("asked_by", [claude, chat, responses, local])
def test_one_answer_serves_every_protocol(opened: Opened, provider: FakeProvider, asked_by: Program) -> None:
    """Recorded from one SDK, the answer is rendered for the others, whole and streamed."""

    def ask_all(gateway: Gateway) -> list[str]:
        question: Any = [{"role": "user", "content": "Shared?"}]
        claude = a_claude(gateway)
        chat = an_openai(gateway)
        host = an_ollama(gateway)
        with claude.messages.stream(model="m", max_tokens=9, messages=question) as stream:
            streamed = "".join(stream.text_stream)
        completion = chat.chat.completions.create(model="m", max_tokens=9, messages=question)
        pieces = chat.chat.completions.create(model="m", max_tokens=9, messages=question, stream=True)
        options = {"num_predict": 9}
        return [
            streamed,
            claude.messages.create(model="m", max_tokens=9, messages=question).content[0].text,  # type: ignore[union-attr]
            completion.choices[0].message.content or "",
            "".join(piece.choices[0].delta.content or "" for piece in pieces),
            chat.responses.create(model="m", max_output_tokens=9, input="Shared?").output_text,
            host.chat("m", question, options=options).message.content or "",
            "".join(p.message.content or "" for p in host.chat("m", question, options=options, stream=True)),
            host.generate("m", "Shared?", options=options).response or "",
        ]

    with opened("once", provider.url) as gateway:
        question: Any = [{"role": "user", "content": "Shared?"}]
        if asked_by is claude:
            a_claude(gateway).messages.create(model="m", max_tokens=9, messages=question)
        elif asked_by is local:
            an_ollama(gateway).chat("m", question, options={"num_predict": 9})
        else:
            client = an_openai(gateway)
            if asked_by is chat:
                list(client.chat.completions.create(model="m", max_tokens=9, messages=question, stream=True))
            else:
                client.responses.create(model="m", max_output_tokens=9, input="Shared?")
    with opened() as gateway:
        assert ask_all(gateway) == ["You said: Shared?"] * 8


def test_a_miss_is_raised_at_once_and_says_everything(opened: Opened, provider: FakeProvider) -> None:
    """In each SDK's own error, without a second try."""
    with opened("once", provider.url) as gateway:
        client = a_claude(gateway)
        client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "It is Monday."}]
        )
    message: Any = [{"role": "user", "content": "It is Sunday."}]
    with opened() as gateway:
        with pytest.raises(anthropic.APIStatusError, match="nothing is recorded for m") as caught:
            a_claude(gateway).messages.create(model="m", max_tokens=9, messages=message)
        with pytest.raises(openai.APIStatusError, match="nothing is recorded"):
            an_openai(gateway).chat.completions.create(model="m", max_tokens=9, messages=message)
        with pytest.raises(ollama.ResponseError, match="nothing is recorded"):
            an_ollama(gateway).chat("m", message)
        assert len(gateway.run.ledger.misses) == 3, "nobody tried again"

    text = str(caught.value)
    assert caught.value.status_code == 424
    assert "message 1 (user): 'It is Monday.' → 'It is Sunday.'" in text
    assert "To record it: open the run in the mode once" in text
    assert "fixtures/m/" in text
