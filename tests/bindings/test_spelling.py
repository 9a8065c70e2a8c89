"""How JSON spells a text is found again."""

from __future__ import annotations

import json

import pytest

from cortex_replay.bindings.json_strings import document_strings, strings_within
from cortex_replay.bindings.spelling import Run, spell, style_of, style_runs


@pytest.mark.parametrize("style", ["", "a", "s", "as", "au", "x", "xu"])
@pytest.mark.parametrize("text", ["/home/zü", 'a"b\\c', "😀\n\x01\x7f", "plain", ""])
def test_a_spelled_text_is_that_text_and_its_style_is_found(text: str, style: str) -> None:
    spelled = spell(text, style)

    assert json.loads(f'"{spelled}"') == text
    found = style_of(text, spelled)
    assert found is not None
    assert spell(text, found) == spelled


def test_a_text_in_two_styles_is_two_runs() -> None:
    assert style_runs("éa/é", "\\u00e9a\\/é") == [Run(0, 3, "as"), Run(3, 4, "")]
    assert style_runs("é", "\\u00eE") is None


def test_strings_stand_where_they_stand() -> None:
    text = ' {"a": ["b\\n", {"c\\u00e9": "d"}], "e": 1}'
    found = document_strings(text)

    assert found is not None
    value, strings = found
    assert value == json.loads(text)
    assert [string.text for string in strings] == ["a", "b\n", "cé", "d", "e"]
    for string in strings:
        assert text[string.start :].startswith(string.spelled)
    assert strings[2].span(1, 2) == (1, 7)


@pytest.mark.parametrize(
    "text", ['"a"', "[1", "plain", '{"a": "b", "a": "c"}', "[" * 200 + '"a"' + "]" * 200]
)
def test_what_is_no_plain_document_has_no_strings(text: str) -> None:
    assert strings_within(text) is None
