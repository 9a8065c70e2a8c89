"""How much of what was planted is found, and how much is found where nothing was."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from cortex_replay.redact.known_values import KNOWN
from cortex_replay.redact.redactor import Redactor
from tests.redact.clean import clean_fixture
from tests.redact.kinds import IN_CONTEXT, KINDS, Secret
from tests.redact.planted import ENCODINGS, Encoded, fixture, survives


def planted(each: int, seed: str = "planted") -> Iterator[tuple[str, Secret, Encoded, dict[str, Any]]]:
    """Secrets of every kind in every encoding, ``each`` of them, in recordings."""
    for kind, make in (KINDS | IN_CONTEXT).items():
        for name, encode in ENCODINGS.items():
            for number in range(each):
                random = Random(f"{seed}/{kind}/{name}/{number}")
                secret = make(random)
                encoded = encode(random, secret)
                yield f"{kind}/{name}", secret, encoded, fixture(random, encoded)


def redacted(redactor: Redactor, document: dict[str, Any]) -> dict[str, Any]:
    """A recording as it would be stored: the stream as one text, everything else as JSON."""
    result: Any = redactor.json({name: value for name, value in document.items() if name != "stream"})[0]
    if "stream" in document:
        pieces, _ = redactor.pieces([chunk["delta"] for chunk in document["stream"]])
        chunks = zip(document["stream"], pieces, strict=True)
        result["stream"] = [{**chunk, "delta": piece} for chunk, piece in chunks]
    return dict(result)


def missed_by_pattern(each: int, seed: str = "planted") -> tuple[list[str], int]:
    """What of the planted secrets can still be read, and how many were planted."""
    redactor = Redactor()
    total = 0
    missed = []
    for name, _, encoded, document in planted(each, seed):
        assert survives(encoded, document), f"{name} was not planted"
        total += 1
        if survives(encoded, redacted(redactor, document)):
            missed.append(name)
    return missed, total


def missed_by_value(each: int, seed: str = "planted") -> tuple[list[str], int]:
    """The same for values that are known, without the help of any pattern; what is left must be noticed."""
    total = 0
    missed = []
    for name, secret, encoded, document in planted(each, seed):
        total += 1
        redactor = Redactor([secret.text], only=[KNOWN])
        stored = redacted(redactor, document)
        if survives(encoded, stored) or redactor.left_in(stored) or not redactor.left_in(document):
            missed.append(name)
    return missed, total


def false_hits(count: int, seed: str = "clean") -> list[tuple[int, str, str]]:
    """What is found in recordings without a secret: number, place and rule, one for each recording."""
    redactor = Redactor()
    found = []
    for number in range(count):
        hits = redactor.found_in(clean_fixture(Random(f"{seed}/{number}")))
        found += [(number, place, rule) for place, rule in hits[:1]]
    return found
