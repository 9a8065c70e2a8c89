"""Cassettes that vcrpy itself made of the providers' SDKs; imported, and replayed with nobody behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest
import vcr

from cortex_replay import Store
from tests.cassettes.conftest import Imported, tree
from tests.gateway.conftest import gateway_over
from tests.gateway.upstream import REAL_KEY, model_server

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
Program = Callable[[str, str], list[Any]]
_OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def _closed_clients() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def claude(url: str, key: str) -> list[Any]:
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
    _OPEN.append(client)
    asked: Any = {"model": "m", "max_tokens": 32}
    plain = client.messages.create(messages=[{"role": "user", "content": "Hello."}], **asked)
    with client.messages.stream(messages=[{"role": "user", "content": "Hello, stream."}], **asked) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    tools: Any = [{"name": "get_weather", "description": "Weather.", "input_schema": CITY}]
    called = client.messages.create(
        messages=[{"role": "user", "content": "Weather in Paris?"}], tools=tools, **asked
    )
    counted = client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hello."}])
    return [plain.model_dump(), pieces, final.model_dump(), called.model_dump(), counted.input_tokens]


def chat(url: str, key: str) -> list[Any]:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    _OPEN.append(client)
    asked: Any = {"model": "m", "max_tokens": 32, "temperature": 0}
    plain = client.chat.completions.create(messages=[{"role": "user", "content": "Hé 🙂."}], **asked)
    events = list(
        client.chat.completions.create(
            messages=[{"role": "user", "content": "Hello, stream."}],
            stream=True,
            stream_options={"include_usage": True},
            **asked,
        )
    )
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
    called = client.chat.completions.create(
        messages=[{"role": "user", "content": "Weather in Paris?"}], tools=tools, **asked
    )
    response = client.responses.create(model="m", input="Hello, responses.", max_output_tokens=32)
    types = list(client.responses.create(model="m", input="Stream.", max_output_tokens=32, stream=True))
    embedded = client.embeddings.create(model="m", input="words", encoding_format="float")
    return [
        plain.model_dump(),
        [event.model_dump() for event in events],
        called.model_dump(),
        [response.id, response.output_text],
        [event.type for event in types],
        embedded.model_dump(),
        [model.id for model in client.models.list()],
    ]


def local(url: str, key: str) -> list[Any]:
    client = ollama.Client(host=url)
    _OPEN.append(client._client)
    plain = client.chat("m", [{"role": "user", "content": "Hello."}])
    chunks = list(client.chat("m", [{"role": "user", "content": "Hello, stream."}], stream=True))
    generated = client.generate("m", "Once upon a time")
    tools: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
    called = client.chat("m", [{"role": "user", "content": "Weather?"}], tools=tools)
    return [
        plain.model_dump(),
        [chunk.model_dump() for chunk in chunks],
        generated.response,
        called.model_dump(),
        [model.model for model in client.list().models],
    ]


UPSTREAMS: dict[Program, str] = {claude: "anthropic", chat: "openai", local: "ollama"}


@pytest.mark.parametrize(("serializer", "name"), [("yaml", "a.yaml"), ("json", "a.json")])
@pytest.mark.parametrize("program", UPSTREAMS)
def test_what_vcrpy_recorded_is_replayed_by_the_gateway(
    program: Program, serializer: str, name: str, imported: Imported, tmp_path: Path
) -> None:
    """The very objects that the SDKs gave; the key stands in the cassette, and nowhere in the store."""
    cassette = tmp_path / "cassettes" / name
    with model_server() as provider:
        with vcr.use_cassette(cassette, record_mode="once", serializer=serializer):
            first = program(provider.url, REAL_KEY)
        calls = len(provider.received)
    assert program is local or REAL_KEY in cassette.read_text()
    before = cassette.read_bytes()
    host = provider.url.removeprefix("http://")
    report = imported(cassette, "--host", f"{host}={UPSTREAMS[program]}")
    with gateway_over(tmp_path / "store", "replay", "http://127.0.0.1:9") as gateway:
        again = program(gateway.url(UPSTREAMS[program]), "dummy")
        ledger = gateway.run.ledger

    assert (report["exit"], report["interactions"], report["not_converted"]) == (0, calls, [])
    assert again == first
    assert (ledger.hits, ledger.misses, ledger.live) == (calls, [], 0)
    assert Store.open(tmp_path / "store")
    assert REAL_KEY.encode() not in b"".join(tree(tmp_path / "store").values())
    assert cassette.read_bytes() == before


def test_a_named_host(imported: Imported, tmp_path: Path) -> None:
    """One server may speak for all: then a person says whose list of models it is."""
    cassette = tmp_path / "a.yaml"
    with model_server() as provider:
        with vcr.use_cassette(cassette):
            client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key=REAL_KEY)
            _OPEN.append(client)
            first = [model.id for model in client.models.list()]
        host = provider.url.removeprefix("http://")
    assert imported(cassette, "--host", f"{host}=mine")["exit"] == 0
    store = Store.open(tmp_path / "store")
    (exchange,) = (store.exchange(key) for key in store.exchange_keys())
    assert exchange is not None
    assert exchange.request is not None
    assert exchange.request["upstream"] == "mine"
    with gateway_over(tmp_path / "store", servers={"mine": "http://127.0.0.1:9"}) as gateway:
        client = openai.OpenAI(base_url=gateway.url("mine") + "/v1", api_key="dummy", max_retries=0)
        _OPEN.append(client)
        assert [model.id for model in client.models.list()] == first


def test_an_error_that_vcrpy_recorded(imported: Imported, tmp_path: Path) -> None:
    """It is raised again."""
    cassette = tmp_path / "a.yaml"

    def refused(url: str, key: str) -> str:
        client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
        _OPEN.append(client)
        with pytest.raises(anthropic.AuthenticationError) as caught:
            client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hello."}])
        return str(caught.value)

    with model_server() as provider, vcr.use_cassette(cassette):
        first = refused(provider.url, "the-wrong-key-entirely-123")
    report = imported(cassette)
    assert (report["exit"], report["failures"]) == (0, 1)
    with gateway_over(tmp_path / "store") as gateway:
        assert refused(gateway.url("anthropic"), "dummy") == first
