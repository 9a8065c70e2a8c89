"""[import]: 200 cassettes of vcrpy's with 700 interactions, as suites that call a model have them.

Each is the conversation of an agent: every request has what was said before, and the tools. Responses have
the headers of a real server, with ids and cookies of their own; requests have one key. The peer reads the
same cassettes with vcrpy's own reader, without keeping anything of them.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any, Final

from vcr.request import Request
from vcr.serialize import serialize
from vcr.serializers import yamlserializer

from benchmarks.data import Texts
from benchmarks.measure import cpu_of_child, say, smallest
from benchmarks.table import Goal, Row

__all__ = ["run", "write_cassettes"]

_CASSETTES: Final = 200
_INTERACTIONS: Final = 700
_ROUNDS: Final = 2
_URL: Final = "https://api.openai.com/v1/chat/completions"
_PROJECT: Final = Path(__file__).resolve().parent.parent
_READER: Final = """
import pathlib, sys
from vcr.serialize import deserialize
from vcr.serializers import yamlserializer
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    deserialize(path.read_text(encoding="utf-8"), yamlserializer)
"""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say(f"writing {_CASSETTES} cassettes with {_INTERACTIONS} interactions")
    cassettes = folder / "cassettes"
    write_cassettes(cassettes)
    say("measuring their import")
    command = [sys.executable, "-m", "cortex_replay", "import", str(cassettes), "--store", "llm"]

    def ours() -> float:
        place = folder / "project"
        place.mkdir()
        try:
            return cpu_of_child(command, place)
        finally:
            shutil.rmtree(place)

    reading = [sys.executable, "-c", _READER, str(cassettes)]
    taken = smallest(_ROUNDS, {"ours": ours, "vcrpy": lambda: cpu_of_child(reading, _PROJECT)})
    what = f"{_CASSETTES} cassettes with {_INTERACTIONS} interactions"
    return [
        Row("import", what, taken["ours"], goal=Goal("seconds", 10)),
        Row("import", what, taken["ours"], "vcrpy, reading them", taken["vcrpy"]),
    ]


def write_cassettes(folder: Path) -> None:
    folder.mkdir()
    texts, dice = Texts(seed=21), Random(22)
    system = texts.between(3000, 4000)
    tools = [_tool(number, texts) for number in range(8)]
    for number in range(_CASSETTES):
        turns = _INTERACTIONS // _CASSETTES + (number < _INTERACTIONS % _CASSETTES)
        messages: list[dict[str, str]] = [{"role": "system", "content": system}]
        requests, responses = [], []
        for _ in range(turns):
            messages.append({"role": "user", "content": texts.between(200, 2000)})
            answer = texts.between(300, 1500)
            body = {"model": "gpt-6-luna", "messages": messages, "tools": tools, "temperature": 0.0}
            requests.append(Request("POST", _URL, json.dumps(body).encode(), _request_headers()))
            responses.append(_response(answer, dice))
            messages = [*messages, {"role": "assistant", "content": answer}]
        text = serialize({"requests": requests, "responses": responses}, yamlserializer)
        (folder / f"test_agent_{number:03}.yaml").write_text(text, encoding="utf-8")


def _tool(number: int, texts: Texts) -> dict[str, Any]:
    properties = {f"field_{i}": {"type": "string", "description": texts.between(40, 120)} for i in range(6)}
    function = {
        "name": f"tool_{number}",
        "description": texts.between(200, 500),
        "parameters": {"type": "object", "properties": properties},
    }
    return {"type": "function", "function": function}


def _request_headers() -> dict[str, str]:
    return {
        "authorization": "Bearer sk-proj-" + "Qm7x" * 12,
        "content-type": "application/json",
        "user-agent": "OpenAI/Python 2.7.1",
        "x-stainless-lang": "python",
    }


def _response(answer: str, dice: Random) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer}
    usage = {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}
    body = {
        "id": f"chatcmpl-{dice.randbytes(14).hex()}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "gpt-6-luna",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    headers = {
        "content-type": ["application/json"],
        "openai-organization": ["user-" + dice.randbytes(12).hex()],
        "openai-processing-ms": [str(dice.randrange(200, 9000))],
        "x-request-id": ["req_" + dice.randbytes(16).hex()],
        "cf-ray": [dice.randbytes(8).hex() + "-FRA"],
        "set-cookie": [f"__cf_bm={dice.randbytes(40).hex()}; path=/; HttpOnly; Secure"],
    }
    return {
        "status": {"code": 200, "message": "OK"},
        "headers": headers,
        "body": {"string": json.dumps(body).encode()},
    }
