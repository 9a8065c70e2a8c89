"""vcrpy with chat completions: replaying over httpx what is loaded already, and writing a cassette."""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import vcr
from vcr.request import Request
from vcr.serialize import serialize
from vcr.serializers import jsonserializer

from benchmarks.data import MODEL
from cortex_replay import LlmRequest

__all__ = ["INTERACTIONS", "Interaction", "cassette_of", "interaction", "write_cassette"]

Interaction = tuple[Request, dict[str, Any]]

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


def write_cassette(path: Path, interactions: Iterable[Interaction]) -> None:
    """Record interactions into a new cassette, which vcrpy saves once, at the end.

    As JSON: its default, YAML, takes twice as long.
    """
    with vcr.VCR(serializer="json").use_cassette(str(path)) as cassette:
        for request, response in interactions:
            cassette.append(request, response)


def interaction(request: LlmRequest, answer: str) -> Interaction:
    """What goes over the wire for one call."""
    messages = [{"role": "system", "content": request.system}] if request.system else []
    messages += [{"role": str(message.role), "content": message.content} for message in request.messages]
    body = {
        "model": request.model,
        "messages": messages,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
    }
    return _recorded(body), _response(answer)


def _body(prompt: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": MODEL, "messages": messages, "temperature": 0.0, "max_tokens": 1024}


def _recorded(body: dict[str, Any]) -> Request:
    sent = httpx.Request("POST", _URL, json=body)
    return Request(sent.method, str(sent.url), sent.content, dict(sent.headers))


def _response(answer: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer}
    body = json.dumps({"model": MODEL, "choices": [{"index": 0, "message": message}]}).encode()
    return {
        "status": {"code": 200, "message": "OK"},
        "headers": {"content-type": ["application/json"]},
        "body": {"string": body},
    }


def _cassette(prompts: Sequence[str]) -> str:
    """A cassette as vcrpy writes it after recording these prompts."""
    requests = [_recorded(_body(prompt)) for prompt in prompts]
    responses = [_response("A short answer. " * 25)] * len(prompts)
    text: str = serialize({"requests": requests, "responses": responses}, jsonserializer)
    return text
