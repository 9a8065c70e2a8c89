"""A secret in pieces is cut out whole, whatever its pieces look like by themselves."""

from __future__ import annotations

import base64
import json

import pytest

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor

KNOWN = "Zq7" + "rT2mXv9LpW4sKd8Hn1" * 6
BASIC = "Basic " + base64.b64encode(f"jo:{KNOWN}".encode()).decode()


def test_a_piece_that_looks_like_a_secret_of_its_own_hides_no_other() -> None:
    """The first half of a Basic header is one, too; the rest must not stay."""
    parts: JsonValue = [{"type": "text", "text": BASIC[:60]}, {"type": "text", "text": BASIC[60:] + " end"}]

    clean, _ = Redactor([KNOWN]).document({"parts": parts})

    written = json.dumps(clean)
    assert BASIC[64:80] not in written
    assert written.count("[REDACTED:") == 1
    assert " end" in written


def test_a_named_event_of_a_stream_hides_no_other() -> None:
    """Each event calls its piece a token, and one of them looks random enough to be one."""
    pieces = [KNOWN[:6], KNOWN[6:40], KNOWN[40:]]
    events: JsonValue = [{"text": f"data: {json.dumps({'token': piece})}\n\n"} for piece in pieces]

    clean, _ = Redactor([KNOWN]).document({"events": events})

    assert not any(piece in json.dumps(clean) for piece in pieces)


@pytest.mark.parametrize("before", ["tag-1", "word", "x", "-"])
def test_a_secret_may_begin_with_any_string_of_a_list(before: str) -> None:
    """Joined with the string before it, it does not begin where a secret can."""
    key = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    pieces: JsonValue = [before, key[:3], key[3:11], key[11:], "after"]

    assert Redactor().found_in({"input": pieces})


def test_a_secret_may_begin_with_any_event_of_plain_text() -> None:
    key = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    pieces = ["tag-1", key[:1], key[1:9], key[9:]]

    assert Redactor().found_in({"events": [{"text": f"data: {piece}\n\n"} for piece in pieces]})


def test_base64_goes_on_behind_an_empty_line() -> None:
    text = f"{BASIC[:82]}\n\n{BASIC[82:]} end"

    clean, _ = Redactor([KNOWN]).text(text)

    assert BASIC[90:110] not in clean


@pytest.mark.parametrize("cut", [5, 20, 41])
@pytest.mark.parametrize("written", [KNOWN, KNOWN.encode().hex(), BASIC])
def test_a_known_value_in_two_system_blocks_is_found(written: str, cut: int) -> None:
    system = f"You are helpful. {written[:cut]}\n\n{written[cut:]} Be brief."

    assert Redactor([KNOWN]).left_in({"request": {"system": system}}) == ["request.system"]


@pytest.mark.parametrize("count", [1000, 4000])
def test_many_small_strings_are_read_a_few_times_at_most(count: int) -> None:
    from cortex_replay.redact.documents import sequences  # noqa: PLC0415

    (sequence,) = sequences({"input": ["ab"] * count})

    assert sum(map(len, sequence.readings)) <= 6 * 2 * count + 2**16
