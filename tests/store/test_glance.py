"""A glance accepts nothing that is not trusted when it is looked at with care, and accepts what is usual."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cortex_replay import LlmMessage, LlmRequest, TokenUsage, blake3_hex
from cortex_replay.errors import Finding
from cortex_replay.store import check, trust
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, Fixture, FixtureKey, TimedChunk
from cortex_replay.store.fixture_json import render_document, render_fixture
from cortex_replay.store.glance import plain_key, require_strict_reader
from cortex_replay.store.index.index import FixtureRow, ScopedRow
from cortex_replay.types import StreamChunk, ToolCall
from tests.builder import MODEL, StoreBuilder, fixture_of
from tests.sampling import IS_TORTURE

ANSWER = Answer("Yes.\n“Yes.”", usage=TokenUsage(3, 4), finish_reason="stop")


def usual() -> list[Fixture]:
    """What a glance is for."""
    turns = [LlmMessage("user", 'Is "this" it?\t'), LlmMessage("assistant", "No."), LlmMessage("system", "…")]
    one = LlmRequest(MODEL, "Be terse.", "Is this one?", 0.7, 16)
    return [
        fixture_of(one, ANSWER, meta={"recorded_at": "2026-11-15T00:00:00Z", "tags": ["a", {"b": 1.5}]}),
        fixture_of(LlmRequest(MODEL, "", turns), ANSWER, Answer("Then."), Answer("", meta={"run": "r"})),
        fixture_of(LlmRequest(MODEL, "größer", ()), Answer("", {"a": [None, -0.0, 1e300]}, "other")),
        Fixture(FixtureKey(MODEL, "5" * 64), (Answer("of crtx-llm", reasoning="…"),)),
        fixture_of(LlmRequest(MODEL, "", "x", 0.123456789), Answer("a temperature that f32 bends")),
    ]


def unusual() -> list[Fixture]:
    """What is sound, and takes a closer look."""
    one = LlmRequest(MODEL, "", "Is this one?")
    redacted = {"redactions": [{"kind": "value", "where": "request", "count": 1}]}
    return [
        Fixture(FixtureKey(MODEL, "7" * 64), (ANSWER,), one, dict[str, Any](redacted)),
        fixture_of(one, ANSWER, meta=dict[str, object](redacted)),
        fixture_of(one, Answer("Yes.", stream=(TimedChunk(1, StreamChunk("Yes.", "stop")),))),
        fixture_of(one, Answer("", tool_calls=(ToolCall(name="f", arguments={}),))),
        fixture_of(LlmRequest(MODEL, "", "x", tools=[{"name": "f"}], stop=["."], seed=1), ANSWER),
        fixture_of(LlmRequest(MODEL, "", "a \\ and a \x1b"), ANSWER),
    ]


def row_of(data: bytes, key: FixtureKey, continues: str | None = None) -> FixtureRow:
    return FixtureRow("fixtures/f.json", blake3_hex(data), *key, continues)


def careful_key(row: FixtureRow, data: bytes) -> FixtureKey | None:
    """What a careful look says, of files for which a glance may say the same."""
    try:
        return trust.judge_fixture(row, data).key
    except trust.Untrusted:
        return None


def keys_in(data: bytes) -> list[FixtureKey]:
    """Keys that a hostile index may have for a file: the one that stands in it, and those of what its request
    would hash to if its bytes were taken as they are spelled."""
    found = re.search(rb'"prompt_hash": "([0-9a-f]{64})"', data)
    keys = [FixtureKey(MODEL, found[1].decode())] if found else []
    request = re.search(rb'"request": \{\n(.*?)\n  \},\n  "response"', data, re.DOTALL)
    if request:
        spelled = re.sub(rb'\n *|(?<=":) ', b"", b"{%b}" % request[1].strip())
        keys.append(FixtureKey(MODEL, blake3_hex(spelled)))
    return keys


def with_key(data: bytes, key: FixtureKey) -> bytes:
    return re.sub(
        rb'"prompt_hash": "[0-9a-f]*"', b'"prompt_hash": "%b"' % key.prompt_hash.encode(), data, count=1
    )


def verdicts(data: bytes) -> list[tuple[FixtureKey | None, FixtureKey | None]]:
    """What a glance and a careful look say of bytes, whatever key an index has for them."""
    rows = [(row_of(one, key), one) for key in keys_in(data) for one in [with_key(data, key)]]
    return [(plain_key(row, one), careful_key(row, one)) for row, one in rows]


@pytest.mark.parametrize("fixture", usual())
def test_what_is_usual_is_told_at_a_glance(fixture: Fixture) -> None:
    """With and without a key in the index, and in a scope."""
    data = render_fixture(fixture)
    row = row_of(data, fixture.key)

    assert plain_key(row, data) == fixture.key == careful_key(row, data)
    assert plain_key(FixtureRow(row.path, row.blake3), data) == fixture.key
    assert plain_key(ScopedRow(*row[:4], scope="test"), data) == fixture.key


@pytest.mark.parametrize("fixture", unusual())
def test_what_is_unusual_is_left_to_a_careful_look(fixture: Fixture) -> None:
    """It is sound, and a glance says nothing of it."""
    data = render_fixture(fixture)
    row = row_of(data, fixture.key)

    assert plain_key(row, data) is None
    assert careful_key(row, data) == fixture.key


def test_a_row_says_what_a_file_is_about() -> None:
    """Another hash, another model, a row that continues another: T7."""
    data = render_fixture(usual()[0])
    key = usual()[0].key

    assert plain_key(row_of(data, FixtureKey(MODEL, "1" * 64)), data) is None
    assert plain_key(row_of(data, FixtureKey("other", key.prompt_hash)), data) is None
    assert plain_key(row_of(data, key, continues="1" * 64), data) is None


def test_a_hostile_index_knows_the_hash_of_any_spelling() -> None:
    """What the attacks below rest on: of a sound file, it is the key."""
    data = render_fixture(usual()[0])

    assert keys_in(data) == [usual()[0].key] * 2


ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "a name twice": (b'  "response": {\n', b'  "response": {"text": "other"},\n  "response": {\n'),
    "a name twice in the request": (b'    "system": ', b'    "system": "other",\n    "system": '),
    "a name twice in the meta": (b'"recorded_at"', b'"recorded_at": "x",\n    "recorded_at"'),
    "another spelling": (b"Is this", b"\\u0049s this"),
    "another spelling of a slash": (b"Be terse.", b"Be\\/terse"),
    "half of a pair": (b"Yes.", b"\\ud83d"),
    "a whole pair": (b"Yes.", b"\\ud83d\\ude42"),
    "a control character": (b"Yes.", b"Y\x01s."),
    "a line feed": (b"Is this", b"Is\nthis"),
    "no UTF-8": (b"Yes.", b"Y\xffs."),
    "no UTF-8 in the request": (b"Is this", b"Is\xed\xa0\x80this"),
    "a text that is none": (b'"Be terse."', b"null"),
    "a text that is a number": (b'"Be terse."', b"1"),
    "a role that is none": (b'"user"', b'"developer"'),
    "a system message at the start": (b'"user"', b'"system"'),
    "a field that nobody knows": (
        b'      {\n        "role"',
        b'      {\n        "name": "x",\n        "role"',
    ),
    "a field of the request that nobody knows": (b'    "system": ', b'    "n": 1,\n    "system": '),
    "another order": (b'"system": "Be terse.",\n    "messages"', b'"messages"'),
    "a temperature beyond f32": (b"0.7", b"1e39"),
    "a temperature that is a whole number": (b"0.7", b"1"),
    "a number that is bent": (b"0.7", b"0.70"),
    "a number out of range": (b"1.5", b"1e400"),
    "a minus before nothing": (b'"b": 1.5', b'"b": -0'),
    "a whole number beyond 64 bits": (b'"b": 1.5', b'"b": 18446744073709551616'),
    "fewer than no tokens": (b'"max_tokens": 16', b'"max_tokens": -1'),
    "tokens beyond 64 bits": (b'"max_tokens": 16', b'"max_tokens": 18446744073709551616'),
    "a truth for a number": (b'"max_tokens": 16', b'"max_tokens": true'),
    "a count that is missing": (b'      "prompt_tokens": 3,\n', b""),
    "a count that is null": (b'"prompt_tokens": 3', b'"prompt_tokens": null'),
    "a count beyond 32 bits": (b'"prompt_tokens": 3', b'"prompt_tokens": 4294967296'),
    "a secret that was cut out": (b'"tags": [', b'"redactions": ['),
    "a byte order mark": (b'{\n  "request_match"', b'\xef\xbb\xbf{\n  "request_match"'),
    "something behind it": (b"\n  }\n}\n", b"\n  }\n}\n{}\n"),
    "no line feed at the end": (b"\n  }\n}\n", b"\n  }\n}"),
    "a meta that is none": (b'"meta": {', b'"meta": [{'),
    "an answer that is none": (b'  "meta": {', b'  "then": [{}],\n  "meta": {'),
    "a wire that nobody decodes": (b'  "meta": {', b'  "wire": {},\n  "meta": {'),
    "a stream of something else": (b'  "meta": {', b'  "stream": [],\n  "meta": {'),
    "deep nesting": (b'"b": 1.5', b'"b": ' + b"[" * 200 + b"]" * 200),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_glance_is_not_deceived(attack: str) -> None:
    """Whatever key the index has for it, a glance accepts only what a careful look accepts."""
    data = render_fixture(usual()[0])
    old, new = ATTACKS[attack]
    assert old in data

    for glance, careful in verdicts(data.replace(old, new, 1)):
        assert glance in (None, careful)


def test_deep_nesting_in_our_own_form() -> None:
    """It is refused whatever wrote it."""
    nested: Any = 1
    for _ in range(130):
        nested = [nested]
    document = json.loads(render_fixture(usual()[0]))
    data = render_document(document | {"meta": {"nested": nested}})
    row = row_of(data, usual()[0].key)

    assert plain_key(row, data) is careful_key(row, data) is None


TEXTS = [rb'"text": "', rb'"content": "', rb'"system": "', rb'"reasoning": "', rb'"recorded_at": "']
PIECES = rb'\u0041 \/ \\ \" \n \t \b , {} [] null true -0 1e5 1.5 a Z 7 "'.split(b" ")
PIECES += [b" ", b"\xc3", b"\0"]


def mutate(dice: random.Random, data: bytes) -> bytes:
    """One small change: of a line, of a byte, or of a few, mostly so that it is JSON still."""
    at = dice.randrange(len(data))
    if dice.random() < 0.5:  # within one of the texts
        texts = [found for name in TEXTS for found in re.finditer(name, data)]
        at = dice.choice(texts).end() if texts else at
    lines = data.split(b"\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(9):
        case 0:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 1:
            lines[one] = lines[other]
        case 2:
            lines.insert(one, lines[other])
        case 3:
            del lines[one]
        case 4:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            return data[:at] + dice.choice(PIECES) + data[at + dice.randrange(3) :]
    return b"\n".join(lines)


def test_a_glance_agrees_with_a_careful_look_on_mutations() -> None:
    """Thousands of small changes, each with the keys that a hostile index would have."""
    dice = random.Random(None if IS_TORTURE else 24)
    originals = [render_fixture(fixture) for fixture in [*usual(), *unusual()]]
    accepted = refused = 0
    for _ in range(200_000 if IS_TORTURE else 1000):
        data = dice.choice(originals)
        for _ in range(dice.choice([1, 1, 1, 2])):
            data = mutate(dice, data)
        for glance, careful in verdicts(data):
            assert glance in (None, careful), data
            accepted += glance is not None
            refused += careful is None

    assert accepted > 20
    assert refused > 500


def findings_of(builder: StoreBuilder) -> tuple[list[Finding], list[str], set[FixtureKey], int]:
    report = check.check_store(DirectorySource(builder.root), keep=True)
    return report.findings, report.redacted_requests, set(report.kept), report.bytes_checked


@pytest.mark.parametrize("has_keys", [True, False])
def test_a_check_says_the_same_with_and_without_a_glance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_keys: bool
) -> None:
    """The same findings, the same that is kept, the same counts."""
    builder = StoreBuilder(tmp_path, has_keys=has_keys)
    for fixture in [*usual(), *unusual()[:1]]:
        builder.add_fixture(fixture)
    original = render_fixture(usual()[0])
    for number, (old, new) in enumerate(ATTACKS.values()):
        data = original.replace(old, new, 1)
        key = keys_in(data)[-1]
        builder.add_bytes(with_key(data, key), key, f"fixtures/m/{number}.json")
    builder.write()
    looked: list[str] = []

    def at_a_glance(row: FixtureRow, data: bytes) -> FixtureKey | None:
        looked.append(row.path)
        return plain_key(row, data)

    careful = findings_of(builder)
    monkeypatch.setattr(check, "_FEWEST_FOR_GLANCE", 0)
    monkeypatch.setattr("cortex_replay.store.glance.plain_key", at_a_glance)

    assert careful == findings_of(builder)
    assert len(looked) == len(builder.files)
    assert len(careful[0]) >= 30


def test_a_reader_that_takes_anything_is_refused() -> None:
    """What a text may hold is the reader's to see, so one that does not is not used."""
    lenient: Callable[[bytes], object] = bytes.decode

    require_strict_reader(msgspec.json.Decoder(msgspec.Raw).decode)
    with pytest.raises(ImportError, match="msgspec"):
        require_strict_reader(lenient)
