from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cortex_replay import InvalidRequest, TokenUsage, validation as checks

DEEP: list[Any] = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("check", "value", "place"),
    [
        (checks.text, 5, "f"),
        (checks.text, b"x", "f"),
        (checks.text, "\ud800", "f"),
        (checks.texts, "ab", "f"),
        (checks.texts, ["a", 5], "f[1]"),
        (checks.flag, 1, "f"),
        (checks.items, {"a": 1}, "f"),
        (checks.optional_integer, True, "f"),
        (checks.optional_integer, 2**64, "f"),
        (checks.optional_number, "1", "f"),
        (checks.optional_number, float("nan"), "f"),
        (checks.optional_number, 10**400, "f"),
        (checks.temperature, 3.5e38, "f"),
        (checks.free, {"a": [0, float("inf")]}, "f.a[1]"),
        (checks.free, {"a": {1: 2}}, "f.a"),
        (checks.free, [object()], "f[0]"),
        (checks.free_object, [1], "f"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(
    check: Callable[[object, str], object], value: object, place: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(value, "f")

    assert caught.value.field == place


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="nested"):
        checks.free(DEEP, "f")


@pytest.mark.parametrize(("value", "most"), [(-1, 5), (6, 5), (1.0, 5), (True, 5), ("1", 5)])
def test_a_whole_number_is_whole_and_within_its_limits(value: object, most: int) -> None:
    assert checks.whole_number(5, "f", 5) == 5
    with pytest.raises(InvalidRequest):
        checks.whole_number(value, "f", most)


def test_a_free_value_is_a_copy() -> None:
    given: Any = {"a": [1, (2, 3)], "big": 2**70}
    kept = checks.free(given, "f")
    given["a"].append(4)

    assert kept == {"a": [1, [2, 3]], "big": float(2**70)}


def test_a_text_of_another_class_is_kept_as_what_it_holds() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "other"

    assert type(checks.text(Loud("é"), "f")) is str
    assert checks.text(Loud("é"), "f") == "é"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "x": 1}, "there is no such field"),
        ({"prompt_tokens": 1}, "lacks completion_tokens"),
    ],
)
def test_a_value_is_made_of_its_own_fields(data: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        checks.from_mapping(TokenUsage, data)


def test_a_message_shows_little_of_a_value() -> None:
    assert checks.short_repr("x" * 100) == repr("x" * 100)[:37] + "..."
    assert checks.short_repr(10**5000) == "a int"
