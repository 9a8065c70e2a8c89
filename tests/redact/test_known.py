"""What is known by value is found in every encoding, whatever its characters are."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, strategies as st

from cortex_replay.canonical import JsonValue
from cortex_replay.config import Settings, known_secrets
from cortex_replay.redact.known_values import KNOWN, base64_cores
from cortex_replay.redact.redactor import Hit, Redactor
from tests.property.strategies import effort
from tests.redact.kinds import Secret
from tests.redact.planted import ENCODINGS, pieces_of

VALUE = "s3cr3t-Value_of/the+Process"

values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40) | st.text(
    st.sampled_from('abcn\\"%/ \t25uX0é漢🙂'), min_size=8, max_size=24
).filter(lambda value: len(value.strip()) >= 8 and len(set(value)) > 3)
surroundings = st.text(st.sampled_from('ab \\"%\n/=u0025{}:é'), max_size=6)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(value=values, before=surroundings, after=surroundings, seed=st.integers(0, 2**32))
@effort(40)
def test_any_value_in_any_encoding_is_found_and_removed(
    encoding: str, value: str, before: str, after: str, seed: int
) -> None:
    """The search that refuses finds what was planted, and nothing once the redactor was there."""
    value = value.strip()
    random = Random(seed)
    encoded = ENCODINGS[encoding](random, Secret(value, before, after))
    redactor = Redactor([value])
    documents: list[JsonValue] = [encoded.text, {"a": [encoded.text]}]
    for document in documents:
        assert redactor.left_in(document) != []
        redacted, hits = redactor.json(document)
        assert KNOWN in {hit.rule for hit in hits}
        assert redactor.left_in(redacted) == []
    pieces, hits = redactor.pieces(pieces_of(random, encoded.text))
    assert redactor.left_in({"stream": [{"delta": piece} for piece in pieces]}) == []
    assert "".join(pieces) == redactor.text(encoded.text)[0]


@pytest.mark.parametrize(
    "text",
    [
        f"a{VALUE}b",
        "".join(f"%25{ord(c):02x}" for c in VALUE),
        "".join(f"%2525{ord(c):02X}" for c in VALUE),
        "".join(f"\\x{ord(c):02x}" for c in VALUE),
        VALUE.replace("_", "\\_").replace("-", "\\-"),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        base64.b64encode(base64.b64encode(f"x{VALUE}".encode())).decode(),
        base64.b64encode(json.dumps({"a": json.dumps(VALUE)}).encode()).decode(),
        base64.encodebytes(f"{'some text before it, ' * 3}{VALUE} and after".encode()).decode(),
        base64.b64encode(f"?>?>{VALUE}?>?>".encode()).decode().replace("/", "\\/").replace("+", "%2B"),
        "xyz" + base64.urlsafe_b64encode(VALUE.encode()).decode()[3:] + "AAAA" + VALUE,
        f"https://example.com/?k={VALUE.replace('+', '%2B').replace('/', '%2f')}&x=1",
    ],
)
def test_more_ways_to_write_one(text: str) -> None:
    """Twice escaped, as hex, in Markdown, as base64 twice, of JSON, in lines, with its signs escaped."""
    redactor = Redactor([VALUE])
    redacted, hits = redactor.text(text)

    assert KNOWN in {hit.rule for hit in hits}
    assert redactor.left_in(redacted) == []
    assert redactor.left_in(text) != []


@given(before=st.binary(max_size=9), value=st.binary(min_size=8, max_size=20), after=st.binary(max_size=9))
@effort(100)
def test_the_base64_of_a_value_holds_one_of_its_cores(before: bytes, value: bytes, after: bytes) -> None:
    """Whatever stands around it decides only the characters at its ends."""
    whole = base64.b64encode(before + value + after).decode()

    assert any(core in whole for _, core, _ in base64_cores(value))


def test_bits_at_the_ends_of_base64_go_too() -> None:
    """The characters that a value shares with its neighbours are cut out with it, and the padding."""
    text = base64.b64encode(f"u:{VALUE}".encode()).decode()
    redacted, _ = Redactor([VALUE]).text(f"data {text}, next")

    assert redacted == f"data {text[:2]}[REDACTED:{KNOWN}], next"


def test_short_values_are_ignored() -> None:
    """Seven characters could be a word; eight are a key."""
    assert Redactor(["secrets"]).text("our secrets") == ("our secrets", [])
    assert Redactor(["secrets!"]).text("our secrets!") == (f"our [REDACTED:{KNOWN}]", [Hit(KNOWN, 1)])
    assert Redactor([" secrets \n"]).left_in("our secrets") == []


def test_a_value_in_several_lines_is_known_by_its_lines() -> None:
    """A key file's first line is no secret; each line of its body is, in whatever way it is wrapped."""
    random = Random(1)
    body = [base64.b64encode(random.randbytes(48)).decode() for _ in range(3)]
    redactor = Redactor(["\n".join(["-----BEGIN X-----", *body, "-----END X-----"])])

    assert redactor.text("-----BEGIN X-----") == ("-----BEGIN X-----", [])
    assert redactor.text(f"a {body[1]} b")[0] == f"a [REDACTED:{KNOWN}] b"
    assert redactor.left_in(f"a {body[2]} b") == ["the document"]


def test_a_value_that_is_part_of_a_placeholder() -> None:
    """What is left of an earlier redaction is not taken for the value."""
    redactor = Redactor(["REDACTED", "known-value"])
    text = f"[REDACTED:{KNOWN}] and [REDACTED:openai]"

    assert redactor.text(text) == (text, [])
    assert redactor.left_in({"a": text}) == []
    assert redactor.text("REDACTED")[0] == f"[REDACTED:{KNOWN}]"


def test_keys_are_found_in_the_environment_by_their_names() -> None:
    """Values of variables named like keys, but not what everybody knows, nor a path to a file."""
    environment = {
        "ANTHROPIC_API_KEY": "value-one-1",
        "CORTEX_CLAUDE_API_KEY": " value-two-2\n",
        "my_service_token": "value-three",
        "AWS_SECRET_ACCESS_KEY": "value-four-",
        "DB_PASSWORD_2": "value-five-",
        "PASSWORD": "changeme",
        "SHORT_TOKEN": "short",
        "VAULT_TOKEN": "/run/secrets/vault",
        "TOKENIZERS_PARALLELISM": "false-false",
        "PATH": "/usr/bin:/bin",
        "KEYBOARD": "qwertz-qwertz",
    }

    assert sorted(known_secrets(Settings(), environment)) == [
        "value-five-",
        "value-four-",
        "value-one-1",
        "value-three",
        "value-two-2",
    ]


def test_nothing_shows_a_known_value() -> None:
    """Not even the representation of what holds them."""
    assert repr(Redactor([VALUE])) == "Redactor(1 known values)"


@pytest.mark.parametrize(
    ("text", "end"),
    [("two wor", 0), ("x two wor", 2), ("two words of x", 14), ("nothing", 7), ("two two w", 4), ("", 0)],
)
def test_a_text_is_shown_up_to_where_a_value_may_have_begun(text: str, end: int) -> None:
    """Also at its very beginning."""
    assert Redactor(known=["two words of a secret"]).safe_end(text, len(text)) == end


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"request": {"system": text}}])
def test_a_value_that_is_split_over_two_blocks_of_a_text_is_found(wrap: Callable[[str], JsonValue]) -> None:
    """The blocks of a system prompt are stored as one text with empty lines between them."""
    redactor = Redactor([VALUE])
    assert redactor.found_in(
        wrap(f"The first block ends with {VALUE[:12]}\n\n{VALUE[12:]} begins the second.")
    )
    assert not redactor.found_in(wrap("The first block.\n\nThe second block."))
