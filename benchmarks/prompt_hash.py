"""[hash]: the key of a request, against the least that a program could do instead.

The peer is ``json.dumps`` of the same data and BLAKE3 over it, which gives no contract at all: no
sorted keys in tools, no f32, no numbered ids. Every request and every text in it is new to both
sides, because a text remembers its UTF-8 form once somebody has asked for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from blake3 import blake3

from benchmarks.data import MODEL, Texts
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay import LlmRequest

__all__ = ["run"]

_ROUNDS = 15
_SMALL = 100
_LARGE = 20_000
_SYSTEM = "You are a careful assistant that uses its tools."

Make = Callable[[Texts, int], LlmRequest]


def run(_folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring the hash of requests")
    texts = Texts(seed=5)
    at_100 = Goal("slower", 2)
    at_20_000 = Goal("faster", 2)
    return [
        _row("100 bytes", texts, _small, 5000, at_100),
        _row("20 kB, one ASCII prompt", texts, _one_prompt, 200, at_20_000),
        _row("20 kB, one prompt of many scripts", texts, _one_mixed_prompt, 200, at_20_000),
        _row("20 kB, one Japanese prompt", texts, _one_japanese_prompt, 200, at_20_000),
        _row("20 kB, many messages and tools", texts, _conversation, 200, at_20_000),
    ]


def _row(what: str, texts: Texts, make: Make, count: int, goal: Goal) -> Row:
    def ours() -> float:
        requests = [make(texts, number) for number in range(count)]
        return cpu_of(lambda: _hash_all(requests)) / count

    def peer() -> float:
        plain = [make(texts, number).to_dict() for number in range(count)]
        return cpu_of(lambda: _dump_and_hash_all(plain)) / count

    taken = smallest(_ROUNDS, {"ours": ours, "peer": peer})
    name = "json.dumps + blake3"
    return Row("hash", f"prompt_hash(), {what}", taken["ours"], name, taken["peer"], goal, "call")


def _hash_all(requests: Iterable[LlmRequest]) -> None:
    for request in requests:
        request.prompt_hash()


def _dump_and_hash_all(plain: Iterable[object]) -> None:
    # Written out in the loop: a function of its own would cost the peer a call.
    for data in plain:
        blake3(json.dumps(data).encode()).hexdigest()


def _small(_texts: Texts, number: int) -> LlmRequest:
    return _of_size(LlmRequest(MODEL, "", f"{number:04}"), _SMALL)


def _one_prompt(texts: Texts, number: int) -> LlmRequest:
    prompt = f"{number}: {texts.between(19_000, 19_000)}"
    return _of_size(LlmRequest(MODEL, _SYSTEM, prompt, 0.0, 1024), _LARGE)


def _one_mixed_prompt(texts: Texts, number: int) -> LlmRequest:
    prompt = f"{number}: {texts.between(17_400, 17_400, 'mixed')}"
    return _of_size(LlmRequest(MODEL, _SYSTEM, prompt, 0.0, 1024), _LARGE)


def _one_japanese_prompt(texts: Texts, number: int) -> LlmRequest:
    prompt = f"{number}: {texts.between(7_800, 7_800, 'japanese')}"
    return _of_size(LlmRequest(MODEL, _SYSTEM, prompt, 0.0, 1024), _LARGE)


def _of_size(request: LlmRequest, size: int) -> LlmRequest:
    """The same request with a longer prompt, so that its canonical form has ``size`` bytes."""
    missing = size - len(request.canonical_bytes())
    prompt = request.messages[0].content + "x" * missing
    return LlmRequest(request.model, request.system, prompt, request.temperature, request.max_tokens)


def _conversation(texts: Texts, number: int) -> LlmRequest:
    """An agent in the middle of its work: 20 tools, and 14 turns of question, call and result."""
    messages: list[dict[str, object]] = []
    for turn in range(14):
        call_id = f"toolu_{number}_{turn}"
        arguments = {"path": f"src/part_{turn}.py", "first_line": turn * 10, "exact": True}
        call = {"id": call_id, "name": f"tool_{turn}", "arguments": arguments}
        messages += [
            {"role": "user", "content": texts.between(150, 150)},
            {"role": "assistant", "content": texts.between(80, 80), "tool_calls": [call]},
            {"role": "tool", "content": texts.between(460, 460), "tool_call_id": call_id},
        ]
    return LlmRequest(MODEL, _SYSTEM, messages, 0.0, 1024, tools=[_tool(i) for i in range(20)])


def _tool(number: int) -> dict[str, object]:
    return {
        "name": f"tool_{number}",
        "description": "Reads a part of one file of the project and returns it with line numbers.",
        "input_schema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where the file is."},
                "first_line": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
                "exact": {"type": "boolean", "default": False},
            },
            "required": ["path"],
        },
    }
