"""[secrets]: what redaction costs a recording that has nothing to hide, as nearly all of them.

A text is searched for a known key and for every pattern. The peer of a stream is the same text in one
piece. ``make torture`` has the other figures: how much is found, and how little by mistake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path

import orjson

from benchmarks import measure
from benchmarks.data import Texts
from benchmarks.measure import cpu_of, say, smallest
from benchmarks.table import Goal, Row
from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor

__all__ = ["run"]

_ROUNDS = 15
_CALLS = 20
_SIZE = 20_000
_A_MILLISECOND = Goal("seconds", 1e-3)
_KNOWN = ["a-key-that-is-nowhere-0815", "another-key-that-is-nowhere-4711"]


def run(_folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring redaction")
    redactor = Redactor(_KNOWN)
    texts = Texts(seed=6)
    prose = texts.between(_SIZE, _SIZE)
    mixed = texts.between(_SIZE, _SIZE, "mixed")
    code = (Path(measure.__file__).read_text(encoding="utf-8") * _SIZE)[:_SIZE]
    escaped = json.dumps(json.dumps({"body": code[: _SIZE // 2], "text": prose[: _SIZE // 3]}))
    pieces = [prose[i : i + 20] for i in range(0, len(prose), 20)]
    stream: list[JsonValue] = [{"at_ms": i, "delta": piece} for i, piece in enumerate(pieces)]
    document: JsonValue = {"response": {"text": prose}, "stream": stream}
    written = orjson.dumps(document)
    in_one_piece = _cost(lambda: redactor.text(prose))
    return [
        Row("secrets", "text(), 20 kB of prose", in_one_piece, goal=_A_MILLISECOND, unit="call"),
        _row("text(), 20 kB in many scripts", lambda: redactor.text(mixed)),
        _row("text(), 20 kB of code", lambda: redactor.text(code)),
        _row(f"text(), {len(escaped) // 1000} kB of JSON in JSON", lambda: redactor.text(escaped)),
        Row(
            "secrets",
            f"pieces(), the same in {len(pieces)} deltas",
            _cost(lambda: redactor.pieces(pieces)),
            "text()",
            in_one_piece,
            Goal("slower", 1.5),
            "call",
        ),
        Row(
            "secrets",
            "left_in(), such a recording",
            _cost(lambda: redactor.left_in(document)),
            "orjson.loads",
            _cost(lambda: orjson.loads(written)),
            unit="call",
        ),
    ]


def _row(what: str, work: Callable[[], object]) -> Row:
    return Row("secrets", what, _cost(work), goal=_A_MILLISECOND, unit="call")


def _cost(work: Callable[[], object]) -> float:
    def often() -> None:
        for _ in range(_CALLS):
            work()

    return smallest(_ROUNDS, {"ours": lambda: cpu_of(often)})["ours"] / _CALLS
