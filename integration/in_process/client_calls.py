"""One call each with the clients that people have, as marked tests make them.

``REPEAT`` says how often each is made, ``RESULTS`` is the folder of what the first run got, and ``CHANGED``
makes another question of each.
"""

# ruff: noqa: PLC0415 - each imports its own library, within the test: so late, too, it is intercepted
# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import asyncio
import http.client
import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.llm_replay

CHAT = os.environ["CHAT_SERVER"]
WIRES = os.environ["WIRE_SERVER"]
MODEL = os.environ["MODEL"]
KEY = os.environ.get("CHAT_KEY", "none")
RESULTS = Path(os.environ["RESULTS"])
REPEAT = int(os.environ.get("REPEAT", "1"))
CHANGED = os.environ.get("CHANGED", "")
HEADERS = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
URL = f"{CHAT}/v1/chat/completions"


def text(client: str) -> str:
    """A question of each client's own, so that none gets another's answer."""
    return f"Hello from {client}.{CHANGED}"


def messages(client: str) -> Any:
    return [{"role": "user", "content": text(client)}]


def asked(client: str, *, stream: bool = False) -> Any:
    body = {"model": MODEL, "max_tokens": 8, "messages": messages(client)}
    return {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else body


def with_requests() -> Any:
    import requests

    return requests.post(URL, json=asked("requests"), headers=HEADERS, timeout=60).text


def with_requests_lines() -> Any:
    import requests

    with requests.post(
        URL, json=asked("requests lines", stream=True), headers=HEADERS, timeout=60, stream=True
    ) as answer:
        return [line.decode() for line in answer.iter_lines()]


def with_urllib3() -> Any:
    import urllib3

    answer = urllib3.PoolManager().request(
        "POST",
        URL,
        body=json.dumps(asked("urllib3", stream=True)).encode(),
        headers=HEADERS,
        preload_content=False,
    )
    return b"".join(answer.stream(16)).decode()


def with_urllib() -> Any:
    request = urllib.request.Request(URL, json.dumps(asked("urllib")).encode(), HEADERS)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def with_http_client() -> Any:
    connection = http.client.HTTPConnection(CHAT.removeprefix("http://"))
    connection.request("POST", "/v1/chat/completions", json.dumps(asked("http client", stream=True)), HEADERS)
    with connection.getresponse() as answer:
        return answer.read().decode()


def with_aiohttp() -> Any:
    import aiohttp

    async def main() -> Any:
        async with aiohttp.request(
            "POST", URL, json=asked("aiohttp", stream=True), headers=HEADERS
        ) as answer:
            answer.raise_for_status()
            return [line.decode() async for line in answer.content]

    return asyncio.run(main())


def with_uvloop() -> Any:
    import aiohttp
    import uvloop

    async def main() -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.post(URL, json=asked("uvloop"), headers=HEADERS) as got,
        ):
            return await got.text()

    return uvloop.run(main())


def with_litellm() -> Any:
    import litellm

    options: Any = {"model": f"openai/{MODEL}", "api_base": f"{CHAT}/v1", "api_key": KEY, "max_tokens": 8}

    async def main() -> Any:
        whole = await litellm.acompletion(messages=messages("litellm"), num_retries=0, **options)
        stream = await litellm.acompletion(
            messages=messages("litellm, streamed"), num_retries=0, stream=True, **options
        )
        return [whole.choices[0].message.content, [part.choices[0].delta.content async for part in stream]]

    return asyncio.run(main())


def with_litellm_over_aiohttp() -> Any:
    """Anthropic's API, which LiteLLM speaks itself, with its own client on aiohttp."""
    import litellm

    async def main() -> Any:
        answer = await litellm.acompletion(
            model=f"anthropic/{MODEL}",
            api_base=CHAT,
            api_key=KEY,
            messages=messages("litellm over aiohttp"),
            max_tokens=8,
            num_retries=0,
        )
        return answer.choices[0].message.content

    return asyncio.run(main())


def with_huggingface() -> Any:
    from huggingface_hub import InferenceClient

    client = InferenceClient(base_url=f"{CHAT}/v1", api_key=KEY)
    whole = client.chat_completion(messages("huggingface"), model=MODEL, max_tokens=8)
    parts = client.chat_completion(messages("huggingface, streamed"), model=MODEL, max_tokens=8, stream=True)
    return [
        whole.choices[0].message.content,
        [part.choices[0].delta.content for part in parts if part.choices],
    ]


def with_async_huggingface() -> Any:
    from huggingface_hub import AsyncInferenceClient

    async def main() -> Any:
        client = AsyncInferenceClient(base_url=f"{CHAT}/v1", api_key=KEY)
        whole = await client.chat_completion(messages("async huggingface"), model=MODEL, max_tokens=8)
        parts = await client.chat_completion(
            messages("async huggingface, streamed"), model=MODEL, max_tokens=8, stream=True
        )
        said = [part.choices[0].delta.content async for part in parts if part.choices]
        return [whole.choices[0].message.content, said]

    return asyncio.run(main())


def with_mistral() -> Any:
    from mistralai.client import Mistral

    with Mistral(api_key=KEY, server_url=CHAT) as client:
        whole = client.chat.complete(model=MODEL, messages=messages("mistral"), max_tokens=8)
        parts = client.chat.stream(model=MODEL, messages=messages("mistral, streamed"), max_tokens=8)
        said = [str(part.data.choices[0].delta.content) for part in parts]
        return [whole.choices[0].message.content, said]


def with_cohere() -> Any:
    import cohere

    client = cohere.ClientV2("none", base_url=WIRES)
    whole = client.chat(model="command-a", messages=messages("cohere")).message.content[0].text
    parts = client.chat_stream(model="command-a", messages=messages("cohere, streamed"))
    return [whole, [part.model_dump_json() for part in parts]]


def with_boto3() -> Any:
    import boto3

    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=WIRES,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )

    def asked(about: str) -> Any:
        return [{"role": "user", "content": [{"text": text(about)}]}]

    # Two questions: one that is asked twice has two answers, and each of them once.
    whole = client.converse(modelId="anthropic.claude-v1:0", messages=asked("boto3"))
    parts = client.converse_stream(modelId="anthropic.claude-v1:0", messages=asked("boto3, streamed"))[
        "stream"
    ]
    return [whole["output"], list(parts)]


def _genai() -> Any:
    from google import genai

    return genai.Client(api_key="none", http_options={"base_url": WIRES})


def with_genai() -> Any:
    client = _genai()  # which closes its connections when it is forgotten
    models = client.models
    whole = models.generate_content(model="gemini-2.5-flash", contents=text("genai")).text
    parts = models.generate_content_stream(model="gemini-2.5-flash", contents=text("genai, streamed"))
    return [whole, [part.text for part in parts]]


def with_async_genai() -> Any:
    async def main() -> Any:
        owner = _genai()
        async with owner.aio as client:
            whole = await client.models.generate_content(
                model="gemini-2.5-flash", contents=text("async genai")
            )
            parts = await client.models.generate_content_stream(
                model="gemini-2.5-flash", contents=text("async genai, streamed")
            )
            return [whole.text, [part.text async for part in parts]]

    return asyncio.run(main())


CALLS: list[Callable[[], Any]] = [
    value for name, value in list(globals().items()) if name.startswith("with_")
]


@pytest.mark.parametrize("call", CALLS, ids=[call.__name__ for call in CALLS])
def test_client(call: Callable[[], Any]) -> None:
    file = RESULTS / f"{call.__name__}.json"
    for _ in range(REPEAT):
        got = json.loads(json.dumps(call()))
        if file.exists():
            assert got == json.loads(file.read_text())
        else:
            assert got
            file.write_text(json.dumps(got))
