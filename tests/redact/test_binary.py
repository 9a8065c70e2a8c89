"""Bytes that are no text, as somebody reads them who looks for a secret."""

from __future__ import annotations

import base64
import json

import pytest

from cortex_replay.redact import binary
from cortex_replay.redact.binary import readings_of

SECRET = "pässword-4711-öf-a-user"
FRAME = b"\x00\x00\x01\x9a\xff\xfe"


def test_text_between_other_bytes_is_read_in_each_code() -> None:
    read = readings_of(FRAME + SECRET.encode() + FRAME)
    assert SECRET in str(read["as UTF-8"])
    assert "as events" not in read

    wide = "a secret of 16 bits"
    for code in ("utf-16-le", "utf-16-be"):
        assert wide in str(readings_of(FRAME + wide.encode(code) + FRAME)["as UTF-16"])
    assert readings_of(b"\xffab")["as latin-1"] == "ÿab"


def test_events_in_frames_are_read_and_what_they_hold_as_base64() -> None:
    """As Amazon's event streams have them."""
    inner = {"delta": SECRET}
    hidden = base64.b64encode(json.dumps(inner).encode()).decode()
    first, second = {"bytes": hidden, "n": 1, "p": "not base64!"}, {"text": "plain"}
    data = FRAME + json.dumps(first).encode() + FRAME + b'{"broken": ' + FRAME + json.dumps(second).encode()

    read = readings_of(data)

    assert read["as events"] == [first, second]
    assert read["as encoded events"] == [inner]


@pytest.mark.parametrize("start", ['{"', '{"a":[', '{"a":' * 20_000])
def test_what_begins_like_json_many_times_is_read_a_few_times_only(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    class Counting(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[object, int]:
            nonlocal read
            read += len(s)
            return super().raw_decode(s, idx)

    monkeypatch.setattr(binary, "_DECODER", Counting())
    data = start.encode() * (400_000 // len(start))

    assert "as events" not in readings_of(data)
    assert read <= binary._MOST_READ * len(data) + binary._LONGEST_EVENT
