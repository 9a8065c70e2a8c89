"""Nobody makes us think for long: what is looked through takes linear time, and not much of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random

import pytest

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.routes import path_problem
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.edits import costs_of_edits
from cortex_replay.redact.documents import sequences
from cortex_replay.redact.known_values import KnownValues
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.residue import Residue
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole
from cortex_replay.wire import WIRES
from tests.growth import costs_at_most, grows_linearly
from tests.sampling import sample

RANDOM = Random(15)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
VALUES = ["".join(RANDOM.choices(LETTERS, k=40)) for _ in range(40)]
LEFTOVERS = Residue(KnownValues([*VALUES, "a value with spaces", "an%awkward\\value"]))
REDACTOR = Redactor(VALUES)
SIZE = 24_000
LARGE = 120_000


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


HOSTILE = [
    *(
        "\\",
        "%",
        "%25",
        "\\u0041",
        "\\\\u0073",
        "%41",
        "%41x",
        "%25252541",
        "\\n",
        "\\ud83d\\ude00",
        "\\x41y",
    ),
    *(
        "A",
        "QUFB",
        "aB3d9 ",
        "a" * 60 + "\n",
        "a" * 60 + "\n" + "\t" * 16,
        "a" * 60 + "\\n",
        "+",
        "+%20",
        "\0",
    ),
    *(VALUES[0][:-1] + "\\u0020", VALUES[0][:-1] + " ", encoded(VALUES[0])[:-8] + "!", VALUES[0][:20] + "%4"),
    *(encoded("x%41y" * 12) + "%41", encoded("\\u0041%41 " * 8), encoded(encoded(encoded("text " * 9)))),
    *("u0025", "\\u002525", "%5Cu0025", "\\\\\\\\u0025", "é%", "deadbeef" * 8, "[REDACTED:openai]"),
]


def nested(strings: int, depth: int) -> JsonValue:
    value: JsonValue = ["ab"] * strings
    for _ in range(depth):
        value = [value]
    return value


DOCUMENTS: dict[str, Callable[[int], JsonValue]] = {
    "one list": lambda n: ["ab"] * n,
    "lists in lists": lambda n: nested(n, 100),
    "many deep ones": lambda n: [nested(1, 100) for _ in range(n // 50)],
    "objects in lists": lambda n: [{"a": [{"b": [{"c": "x"}]}]} for _ in range(n // 4)],
    "JSON in texts": lambda n: ['{"a":"b"}'] * (n // 4),
    "events": lambda n: 'data: {"a":"b"}\n' * (n // 4),
    "names": lambda n: {f"name {i}": "x" for i in range(n)},
    "JSON in JSON": lambda n: json.dumps({"a": json.dumps([{"c": "d"}] * (n // 4))}),
}


@pytest.mark.parametrize("unit", sample(HOSTILE, 12), ids=ascii)
def test_the_search_for_leftovers_is_linear(unit: str) -> None:
    once = unit * (SIZE // len(unit))
    assert grows_linearly(lambda: LEFTOVERS.is_in(once), lambda: LEFTOVERS.is_in(once + once))


def test_forty_keys_cost_little_more_than_one() -> None:
    """Each of them used to be searched for by itself."""
    one = Residue(KnownValues(VALUES[:1]))
    texts = [unit * (LARGE // len(unit)) for unit in sample(HOSTILE, 10)]
    assert costs_at_most(
        6, lambda: [LEFTOVERS.is_in(text) for text in texts], lambda: [one.is_in(text) for text in texts]
    )


@pytest.mark.parametrize("shape", DOCUMENTS)
def test_a_document_is_looked_through_in_linear_time(shape: str) -> None:
    make = DOCUMENTS[shape]
    once, twice = make(2000), make(4000)
    for look in (REDACTOR.left_in, REDACTOR.found_in, REDACTOR.json):
        assert grows_linearly(lambda look=look: look(once), lambda look=look: look(twice)), look  # type: ignore[misc]


def test_depth_does_not_multiply() -> None:
    """By counting: each string is handed to a few lists, however many it is in."""
    for depth in (0, 10, 100):
        assert sum(len(sequence.pieces) for sequence in sequences(nested(100, depth))) <= 900


def test_secrets_in_pieces_are_still_joined() -> None:
    value = VALUES[0]
    for depth in range(6):
        document: JsonValue = [{"delta": value[:15]}, {"delta": value[15:]}]
        for _ in range(depth):
            document = [document]
        assert REDACTOR.left_in(document) != [], depth


@pytest.mark.parametrize("unit", ["/", "%25", "%2e", "a", "%41", "/..a", ";", "%e2%80%a4a"])
def test_a_path_is_judged_in_linear_time(unit: str) -> None:
    once = "/" + unit * (64_000 // len(unit))
    assert grows_linearly(lambda: path_problem(once), lambda: path_problem(once + once[1:]))


def test_markers_on_many_system_messages_are_read_in_linear_time() -> None:
    def lift(count: int) -> object:
        block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
        messages = [{"role": "system", "content": [block]}] * count
        return WIRES["openai-chat"].lift({"model": "m", "messages": messages})

    assert grows_linearly(lambda: lift(1500), lambda: lift(3000))


def test_the_edits_of_a_long_prompt_are_priced_in_linear_time() -> None:
    turns = [LlmMessage(LlmRole.USER, f"turn {i}") for i in range(8_000)]
    once, twice = LlmRequest("m", messages=turns[:4_000]), LlmRequest("m", messages=turns)

    def price(request: LlmRequest) -> object:
        return list(costs_of_edits("llamacpp", request, Tariff()))

    assert grows_linearly(lambda: price(once), lambda: price(twice))
