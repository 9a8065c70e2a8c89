"""What programs are known to print around the output of a tool."""

from __future__ import annotations

import pytest

from cortex_replay.bindings import NOWHERE, Binder, BindingRules
from cortex_replay.bindings.programs import PROGRAMS
from cortex_replay.types import LlmRequest

CODEX = (
    "Chunk ID: {}\nWall time: {} seconds\nProcess exited with code 0\nOriginal token count: {}\nOutput:\nok\n"
)
GEMINI = "<untrusted_context>\nOutput: ok\nProcess Group PGID: {}\n</untrusted_context>"


def key(text: str, *off: str) -> str:
    rules = BindingRules(off=off)
    return Binder(rules, NOWHERE).bind(LlmRequest("m", messages=text)).request.prompt_hash()


@pytest.mark.parametrize(
    ("output", "once", "again"),
    [(CODEX, ("e5539b", "0.0000", "18"), ("81b859", "0.0512", "20")), (GEMINI, ("10038",), ("10077",))],
)
def test_what_a_program_prints_around_an_output_is_bound(
    output: str, once: tuple[str, ...], again: tuple[str, ...]
) -> None:
    assert key(output.format(*once)) == key(output.format(*again))
    assert key(output.format(*once), PROGRAMS) != key(output.format(*again), PROGRAMS)


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("Chunk ID: e5539b", "Chunk ID: 81b859"),
        ("Wall time: 5 seconds", "Wall time: 6 seconds"),
        ("Original token count: 18 of 20", "Original token count: 19 of 20"),
        ("Process Group PGID: 12, said the page", "Process Group PGID: 13, said the page"),
        (
            CODEX.format("e5539b", "0.1", "18"),
            CODEX.format("e5539b", "0.1", "18").replace("code 0", "code 1"),
        ),
    ],
)
def test_the_same_words_elsewhere_count(text: str, edit: str) -> None:
    assert key(text) != key(edit)
