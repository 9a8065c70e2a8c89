from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.strict_json import JsonError, loads

REFUSED = {
    "nothing": b"",
    "an open object": b"{",
    "a trailing comma": b'{"a":1,}',
    "two documents": b"{}{}",
    "trailing text": b"{} x",
    "a comment": b"{} // x",
    "NaN": b"[NaN]",
    "Infinity": b"[-Infinity]",
    "a leading zero": b"[01]",
    "a bare plus": b"[+1]",
    "a bare point": b"[.5]",
    "1e400": b"[1e400]",
    "5,000 digits": b"[" + b"9" * 5000 + b"]",
    "duplicate keys": b'{"a":1,"a":1}',
    "duplicate keys, deep": b'{"x":[{"a":1,"b":2,"a":3}]}',
    "duplicate keys by escape": b'{"a":1,"\\u0061":1}',
    "a lone high surrogate": b'["\\ud800"]',
    "a lone low surrogate": b'["\\udc00"]',
    "a lone surrogate in a key": b'{"\\uD800":1}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "bad UTF-8": b'["\xff"]',
    "an overlong form": b'["\xc0\xaf"]',
    "an encoded surrogate": b'["\xed\xa0\x80"]',
    "a raw control character": b'["\n"]',
    "a NUL": b'["a"]\x00',
    "128 levels": b"[" * 128 + b"]" * 128,
    "255 levels": b"[" * 255 + b"]" * 255,
    "300 levels, indented": b"{\n  " + b'"a": ' + b"[" * 300 + b"]" * 300 + b"\n}",
    "1,024 levels": b"[" * 1024 + b"]" * 1024,
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "100,000 open levels": b'{"a":' * 100_000,
    "single quotes": b"['a']",
    "a bad escape": b'["\\x41"]',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_refused(data: bytes) -> None:
    """Always with our own error, which does not quote what it read."""
    with pytest.raises(JsonError):
        loads(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b" [1, -1, 0.5] \n", [1, -1, 0.5]),
        (b"[18446744073709551615]", [18446744073709551615]),
        (b"[18446744073709551616]", [1.8446744073709552e19]),
        (b"[-9223372036854775808]", [-9223372036854775808]),
        (b"[" + b'"[{",' * 200 + b'"]}"]', ["[{"] * 200 + ["]}"]),
        (b"[-9223372036854775809]", [-9.223372036854775808e18]),
        (b"[1e2, 1E-2, 5e-324, 1e-400]", [100.0, 0.01, 5e-324, 0.0]),
        (b'["\\ud83d\\ude42", "\\u0000"]', ["🙂", "\0"]),
        (b"[" * 127 + b"]" * 127, None),
        (b'["' + b"[" * 200 + b'"]', ["[" * 200]),
        (b"null", None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_accepted(data: bytes, value: Any) -> None:
    """As the reference reads it."""
    read = loads(data)

    assert value is None or repr(value) == repr(read)  # 2**64 is equal to a float


def test_the_text_minus_zero_is_the_float() -> None:
    """As in the reference."""
    assert repr(loads(b"[-0]")) == "[-0.0]"


@pytest.mark.parametrize("depth", [126, 127, 128, 129])
@pytest.mark.parametrize("inner", ["[]", "{}", "1", '{"a": []}'])
def test_pretty_and_compact_agree_on_the_limit_of_nesting(depth: int, inner: str) -> None:
    """The fast road for pretty documents takes no more than the careful one."""
    document = json.loads("[" * depth + inner + "]" * depth)
    pretty = json.dumps(document, indent=2).encode()
    compact = json.dumps(document, separators=(",", ":")).encode()

    def outcome(data: bytes) -> str:
        try:
            return repr(loads(data))
        except JsonError:
            return "refused"

    assert outcome(compact) == outcome(pretty)
    levels = depth + {"[]": 1, "{}": 1, "1": 0, '{"a": []}': 2}[inner]
    assert (levels > 127) == (outcome(pretty) == "refused")


@pytest.mark.parametrize("data", [b'{\n  "a": 1,\n  "a": 1\n}\n', b"[\n  -0\n]", b"[\n  1e16\n]\n"])
def test_pretty_documents_get_no_credit_for_their_looks(data: bytes) -> None:
    """What is indented like ours but would not be written again the same is read with care."""
    if b"a" in data:
        with pytest.raises(JsonError):
            loads(data)
    else:
        assert isinstance(loads(data), list)
