"""What people look at has no secret: neither in a text nor in the name of a field."""

from __future__ import annotations

import json

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.names import without_secrets
from cortex_replay.redact.redactor import Redactor

KEY = "sk-ant-api03-" + "Ab3dE6gH9j" * 4


def test_secrets_go_from_names_and_values_at_any_depth() -> None:
    value: JsonValue = {
        "list": [{KEY: 1, "text": f"my key is {KEY}"}, [KEY, 2, None]],
        "n": {"m": {KEY: KEY}},
    }

    clean = without_secrets(value, Redactor())

    assert KEY not in json.dumps(clean)
    assert isinstance(clean, dict)
    assert clean.keys() == {"list", "n"}
    assert '": 1' in json.dumps(clean["list"]), "what stands under a name stays"
    assert json.dumps(clean["list"]).endswith(", 2, null]]")


def test_a_value_without_secrets_is_the_very_same() -> None:
    value: JsonValue = {"a": ["text", {"b": 1.5}]}

    assert without_secrets(value, Redactor()) is value


def test_a_secret_in_a_name_alone_is_seen() -> None:
    assert KEY not in json.dumps(without_secrets({"a": {KEY: True}}, Redactor()))
