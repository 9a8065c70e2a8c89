"""Chat completions by libraries for HTTP alone: ``raw_client.py LIBRARY``."""

# Not all of these are in the project's own environment.
# mypy: disable-error-code="import-not-found,import-untyped"

# ruff: noqa: PLC0415 - one of them is asked for, and not all are installed together

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final, cast
from urllib.parse import urlsplit

from steps import Outcome, base_url, run

MODEL: Final = os.environ["CLIENT_MODEL"]
URL: Final = base_url("openai", "https://api.openai.com") + "/v1/chat/completions"
HEADERS: Final = {
    "content-type": "application/json",
    "authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
}
WEATHER: Final = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["answer", "ok"],
    "additionalProperties": False,
}

Ask = Callable[[bytes], Iterator[bytes]]
"""Sends a body; gives the lines of the answer, or ends the program with what it was told."""


def by_urllib(body: bytes) -> Iterator[bytes]:
    request = urllib.request.Request(URL, body, HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            yield from answer
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())


def by_http_client(body: bytes) -> Iterator[bytes]:
    """It reads no proxy and no base URL: only what is handed to it."""
    parts = urlsplit(URL)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(cast(str, parts.hostname), parts.port, timeout=60)
    connection.request("POST", parts.path, body, HEADERS)
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(answer.read().decode())
    yield from answer


def by_requests(body: bytes) -> Iterator[bytes]:
    import requests

    answer = requests.post(URL, body, headers=HEADERS, stream=True, timeout=60)
    if answer.status_code != 200:
        sys.exit(answer.text)
    yield from answer.iter_lines()


def by_httpx(body: bytes) -> Iterator[bytes]:
    import httpx

    with httpx.stream("POST", URL, content=body, headers=HEADERS, timeout=60) as answer:
        if answer.status_code != 200:
            sys.exit(answer.read().decode())
        for line in answer.iter_lines():
            yield line.encode()


def by_aiohttp(body: bytes) -> Iterator[bytes]:
    import aiohttp

    async def ask() -> list[bytes]:
        async with (
            aiohttp.ClientSession(trust_env=True) as session,
            session.post(URL, data=body, headers=HEADERS) as answer,
        ):
            if answer.status != 200:
                sys.exit(await answer.text())
            return [line async for line in answer.content]

    yield from asyncio.run(ask())


LIBRARIES: Final[dict[str, Ask]] = {
    "urllib": by_urllib,
    "http.client": by_http_client,
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
}


def asked(text: str, **more: Any) -> bytes:
    fixed = {"model": MODEL, "max_tokens": 16, "temperature": 0}
    return json.dumps({**fixed, "messages": [{"role": "user", "content": text}], **more}).encode()


def steps_of(ask: Ask) -> dict[str, Callable[[], Outcome]]:
    def whole(text: str, **more: Any) -> Any:
        return json.loads(b"".join(ask(asked(text, **more))))["choices"][0]["message"]

    def stream() -> Outcome:
        lines = [line.strip().decode() for line in ask(asked("Stream #unicode", stream=True)) if line.strip()]
        return {"pieces": lines}

    def tool() -> Outcome:
        message = whole("#tool in Paris?", tools=[{"type": "function", "function": WEATHER}])
        return {
            "calls": [
                [call["function"]["name"], call["function"]["arguments"]] for call in message["tool_calls"]
            ]
        }

    def structured() -> Outcome:
        format_ = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
        return {"parsed": json.loads(whole("#json", response_format=format_)["content"])}

    return {
        "plain": lambda: {"text": whole("Hello")["content"]},
        "stream": stream,
        "tool": tool,
        "structured": structured,
    }


if __name__ == "__main__":
    library = sys.argv.pop(1)
    run({library: steps_of(LIBRARIES[library])})
