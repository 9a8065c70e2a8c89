"""vcrpy replaying chat completions over httpx, from a cassette that is loaded already."""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import vcr
from vcr.request import Request
from vcr.serialize import serialize
from vcr.serializers import jsonserializer

from benchmarks.data import MODEL

__all__ = ["INTERACTIONS", "cassette_of"]

INTERACTIONS = 1000
_CALLS = 20
_URL = "https://llm.invalid/v1/chat/completions"
_MATCH_ON = ("method", "scheme", "host", "port", "path", "query", "body")


@contextmanager
def cassette_of(folder: Path, prompts: Sequence[str]) -> Iterator[Callable[[], Coroutine[Any, Any, float]]]:
    """Writes and loads a cassette; what it gives measures calls, in CPU seconds for each.

    ``httpx.Request`` objects are made before the clock starts, as the requests of the other side
    are. No answer is parsed.
    """
    cassette = folder / "cassette.json"
    cassette.write_text(_cassette(prompts), encoding="utf-8")
    dice = random.Random(6)
    recorder = vcr.VCR(serializer="json", record_mode="none", match_on=_MATCH_ON)
    with recorder.use_cassette(str(cassette), allow_playback_repeats=True):

        async def cpu_per_call() -> float:
            async with httpx.AsyncClient() as client:
                order = dice.choices(prompts, k=_CALLS)
                requests = [client.build_request("POST", _URL, json=_body(prompt)) for prompt in order]
                gc.collect()
                start = time.process_time()
                for request in requests:
                    await client.send(request)
                return (time.process_time() - start) / _CALLS

        yield cpu_per_call


def _body(prompt: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": MODEL, "messages": messages, "temperature": 0.0, "max_tokens": 1024}


def _cassette(prompts: Sequence[str]) -> str:
    """A cassette as vcrpy writes it after recording these prompts."""
    requests = []
    for prompt in prompts:
        sent = httpx.Request("POST", _URL, json=_body(prompt))
        requests.append(Request(sent.method, str(sent.url), sent.content, dict(sent.headers)))
    answer = {"role": "assistant", "content": "A short answer. " * 25}
    body = json.dumps({"model": MODEL, "choices": [{"index": 0, "message": answer}]}).encode()
    response = {
        "status": {"code": 200, "message": "OK"},
        "headers": {"content-type": ["application/json"]},
        "body": {"string": body},
    }
    text: str = serialize({"requests": requests, "responses": [response] * len(prompts)}, jsonserializer)
    return text
