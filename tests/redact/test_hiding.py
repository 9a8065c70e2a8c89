"""Where a secret hides: behind escapes, in base64 that begins anywhere, in names."""

from __future__ import annotations

import base64

import pytest

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
KNOWN = ["one-key-of-this-run-4711", "other-key-of-this-run-0815"]


@pytest.mark.parametrize("layers", range(1, 5))
def test_a_token_behind_layers_of_escapes_is_found(layers: int) -> None:
    hidden = f"%{'25' * (layers - 1)}67{TOKEN[1:]}"
    clean, hits = Redactor().text(f"see {hidden} there")

    assert TOKEN[1:] not in clean
    assert [hit.rule for hit in hits] == ["github"]


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz", "xyzw"])
@pytest.mark.parametrize("secret", [TOKEN, KNOWN[0]])
def test_base64_is_read_wherever_it_begins(before: str, secret: str) -> None:
    """A run of letters may begin before its base64 does: in a path, behind a dash."""
    encoded = base64.b64encode(f"the key is {secret}, and more".encode()).decode().rstrip("=")
    clean, hits = Redactor(KNOWN).text(f"/{before}{encoded}/end")

    assert hits
    assert encoded not in clean


def test_fields_that_are_called_by_secrets_stay_two() -> None:
    clean, hits = Redactor(KNOWN).document({KNOWN[0]: 1, KNOWN[1]: 2, "plain": 3})

    assert isinstance(clean, dict)
    assert sorted(map(str, clean.values())) == ["1", "2", "3"]
    assert not any(secret in str(clean) for secret in KNOWN)
    assert sum(hit.count for hit in hits) == 2


def test_no_place_is_named_by_the_secret_that_stands_there() -> None:
    """A refusal names the places, and is shown."""
    document: JsonValue = {KNOWN[0]: {"x": KNOWN[1]}, "list": [{KNOWN[1]: [KNOWN[0]]}], "plain": KNOWN[0]}
    redactor = Redactor(KNOWN)
    places = [*(place for place, _ in redactor.found_in(document)), *redactor.left_in(document)]

    assert "plain" in places
    assert not any(secret in place for secret in KNOWN for place in places)
