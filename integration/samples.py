"""Recordings to show to both sides, the same on every machine: all of them come from seeded dice.

Only what a request of ``crtx-llm`` can say is in them. Numbers are short enough for the float
reader of that crate, which is off by one unit in the last place for some that are longer (see
``docs/differences.md``).
"""

from __future__ import annotations

import json
import random
import struct
from typing import Any, Final

from cortex_replay import LlmRequest, StreamChunk, TokenUsage
from cortex_replay.canonical import JsonValue
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk

__all__ = ["plain_fixtures", "unrecorded_requests"]

_MODELS: Final = (
    "claude-3-5-sonnet-20240620",
    "gpt-4o",
    "GPT-4o",
    "meta-llama/Llama-3.1:70b",
    "modèle “élan” 東京 🙂",
    'quote" back\\slash\ttab\x7f\u2028',
    "con",
    "..",
    "",
)
_ROLES: Final = ("user", "assistant", "tool")
# Letters that some writer of JSON or TOML escapes, splits a line at, sorts or normalises otherwise.
_LETTERS: Final = (
    *"abc xyz 0123 .,:;/<>&'",
    *'"\\\x00\x01\x08\t\n\x0b\x0c\r\x1f\x7f',
    *"\x80\x85\xa0éßİıſΩёか東京\u0301\u200b\u200d\u2028\u2029",
    *"\ud7ff\ue000\ufeff\ufffd\ufffe\uffff",
    *"🙂👩𝒜\U0010ffff",
)
_WHOLE_NUMBERS: Final = (0, 1, -1, 7, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64 - 1)
_FLOATS: Final = (0.0, -0.0, 1.0, 0.1, 1e-5, 1e-6, 1e15, 1e16, 1e17, 1e22, -1.5e16, 1e300, 5e-324)
_F32_BITS: Final = (
    0x3F333333,  # 0.7
    0x15AE43FE,  # 7.0385307e-26, whose shortest text lands on its neighbour when read as f64 first
    0x00000001,  # the smallest
    0x00800000,  # the smallest normal one
    0x7F7FFFFF,  # the largest
    0x4B800001,  # 16777218, beyond every odd number
    0x5368D4A5,  # 1e12, the last power that is written in full
    0x551184E7,  # 1e13, the first that is not
    0x358637BD,  # 1e-6, and the same at the other end
    0x33D6BF95,  # 1e-7
    0x80000000,  # -0.0
)


_META: Final[dict[str, JsonValue]] = {
    "recorded_at": "2026-11-15T00:00:00Z",
    "adapter": "dice",
    "run": "20261115T000000Z-3f2a",
    "asked_at": "2026-11-15T00:00:00.125Z",
    "cache": {
        "markers": [{"at": "system", "number": 1, "ttl": "1h"}, {"at": "prompt", "ttl": "5m"}],
        "blocks": [{"end": 4, "label": "policy"}, {"end": 9}],
        "key": "0123456789abcdef",
        "retention": "24h",
        "reason": "tools_changed",
    },
}


def plain_fixtures(count: int, seed: int) -> list[Fixture]:
    """Recordings with one answer each, under as many keys."""
    dice = random.Random(seed)
    fixtures: dict[FixtureKey, Fixture] = {}
    previous = None
    while len(fixtures) < count:
        request = _request(dice)
        if previous is not None and dice.random() < 0.1:  # the same question to another model
            request = LlmRequest.from_dict({**previous.to_dict(), "model": request.model})
        previous = request
        key = FixtureKey(request.model, request.prompt_hash())
        fixtures[key] = Fixture(key, (_answer(dice),), request, dict(_META) if dice.random() < 0.5 else None)
    return list(fixtures.values())


def unrecorded_requests(count: int, seed: int) -> list[LlmRequest]:
    """Requests that no seed of :func:`plain_fixtures` makes."""
    dice = random.Random(seed)
    return [
        LlmRequest(dice.choice(_MODELS), "never recorded", _text(dice), 0.5, number)
        for number in range(count)
    ]


def _request(dice: random.Random) -> LlmRequest:
    messages = [
        {"role": dice.choice(_ROLES), "content": _text(dice)} for _ in range(dice.choice((0, 1, 1, 2, 5)))
    ]
    return LlmRequest(
        model=dice.choice(_MODELS),
        system=dice.choice(("", _text(dice))),
        messages=messages,
        temperature=_temperature(dice),
        max_tokens=dice.choice((0, 1, 256, 2**32 - 1, dice.randrange(2**32))),
        json_schema=dice.choice((None, None, _schema(dice), _free(dice, 4))),
        timeout_ms=dice.choice((0, 30_000, 2**64 - 1)),
    )


def _temperature(dice: random.Random) -> float:
    chosen = dice.random()
    if chosen < 0.3:
        return dice.choice((0.0, 0.1, 0.7, 1.0, 1.1, 2.0))
    bits = dice.choice(_F32_BITS) if chosen < 0.7 else dice.randrange(0x7F800000)
    temperature: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return temperature


def _answer(dice: random.Random) -> Answer:
    text = _text(dice)
    parsed = None
    if dice.random() < 0.4:
        parsed = _free(dice, 4)
        text = json.dumps(parsed, ensure_ascii=False)
    cached = dice.choice(((None,), (5,), (5, 9, 4)))
    usage = TokenUsage(dice.randrange(2**32), dice.randrange(2**32), *cached)
    streamed = (TimedChunk(1.5, StreamChunk(text[:3])), TimedChunk(20, StreamChunk(text[3:], "stop")))
    return Answer(
        text,
        parsed,
        model=dice.choice((None, None, "", dice.choice(_MODELS))),
        usage=dice.choice((None, usage)),
        finish_reason="stop",
        stream=dice.choice(((), streamed)),
    )


def _schema(dice: random.Random) -> dict[str, Any]:
    names = [_text(dice) for _ in range(dice.randrange(6))]
    if dice.random() < 0.5:
        names.sort()
    properties = {name: {"type": "number", "maximum": _number(dice)} for name in names}
    return {"type": "object", "required": names, "properties": properties, "additionalProperties": False}


def _free(dice: random.Random, depth: int) -> Any:
    """Any JSON."""
    kind = dice.randrange(6 if depth else 4)
    if kind == 5:
        return {_text(dice): _free(dice, depth - 1) for _ in range(dice.randrange(5))}
    if kind == 4:
        return [_free(dice, depth - 1) for _ in range(dice.randrange(5))]
    return (_number(dice), _text(dice), dice.random() < 0.5, None)[kind]


def _number(dice: random.Random) -> float:
    # At most 15 digits, with the zero behind the point, and a power of ten up to 22: every reader
    # gets these right with one division.
    short = float(f"{dice.randrange(10**14)}e-{dice.randrange(23)}")
    return dice.choice((*_WHOLE_NUMBERS, *_FLOATS, short, -short, dice.randrange(-(2**63), 2**64)))


def _text(dice: random.Random) -> str:
    return "".join(dice.choices(_LETTERS, k=dice.choice((0, 1, 5, 40))))
