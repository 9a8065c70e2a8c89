"""The bytes that are hashed. This module is a contract: see ``docs/key.md``.

A changed byte here orphans every fixture ever recorded, so a change of the form is a new
``KEY_VERSION``, which the index carries (``key = 1``) and ``cortex-replay`` refuses when it does
not know it. The form is that of ``crtx-llm`` 0.1.1 for plain requests.

Two kinds of JSON are written here. A *struct* keeps its fields in the documented order. A *free*
value (a schema, a tool, an argument) has its keys sorted by code point at every depth. orjson
writes both, because it agrees with serde_json to the byte since 3.11.7; older ones write ``1e16``
where the contract says ``1e+16``, so the one at hand is asked once, at import.

It takes plain values that :mod:`cortex_replay.types` has validated, and validates nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import orjson

__all__ = [
    "KEY_VERSION",
    "JsonValue",
    "compact",
    "exchange_bytes",
    "f32_text",
    "free_json",
    "is_encodable",
    "require_contract_writer",
    "struct_bytes",
    "struct_ends",
    "struct_item",
]

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

KEY_VERSION: Final = 1

_EXCHANGE_DOMAIN: Final = b"cortex-replay/exchange/1\n"

_WRITER_PROBE: Final = [1e16, 1.5e300, 1e-7, 1e-5, 1e15, 5e-324, -0.0, 0.1, 2**64 - 1, "\x7f\u2028\x1f"]
_WRITER_CONTRACT: Final = (
    '[1e+16,1.5e+300,1e-7,0.00001,1000000000000000.0,5e-324,-0.0,0.1,18446744073709551615,"\x7f\u2028\\u001f"]'
).encode()


def require_contract_writer(dumps: Callable[[Any], bytes]) -> None:
    """Refuse a JSON writer whose bytes would give other keys than everyone else's.

    Raises:
        ImportError: ``dumps`` writes numbers or strings in another form than the contract's.
    """
    written = dumps(_WRITER_PROBE)
    if written != _WRITER_CONTRACT:
        raise ImportError(
            "the installed orjson writes JSON in a form that would change every prompt hash "
            f"({written.decode(errors='replace')}); install orjson 3.11.7 or later"
        )


require_contract_writer(orjson.dumps)


def free_json(value: JsonValue) -> orjson.Fragment:
    """A free JSON value, its keys sorted, ready to stand inside a struct."""
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def is_encodable(text: str) -> bool:
    """Whether a text can be hashed: it holds no half of a surrogate pair.

    Asking the writer itself leaves the text's UTF-8 form with the text, where the writer finds it
    again when the request is hashed; ``str.encode`` would make it and throw it away.
    """
    try:
        orjson.dumps(text)
    except orjson.JSONEncodeError:
        return False
    return True


def compact(value: JsonValue) -> str:
    """A free JSON value as text, its keys sorted."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def struct_bytes(
    system: str,
    messages: Sequence[Mapping[str, Any]],
    temperature: float | None,
    max_tokens: int | None,
    additional: Iterable[tuple[str, JsonValue]] = (),
) -> bytes:
    """The canonical bytes of one request.

    Args:
        system: The system text, "" for none.
        messages: Each with its fields in canonical order, free values as :func:`free_json` gives them.
        temperature: Written as the nearest f32; ``None`` is written ``null``.
        max_tokens: ``None`` is written ``null``.
        additional: The fields after these, in canonical order, only those that are present.
    """
    fields: dict[str, Any] = {
        "system": system,
        "messages": messages,
        "temperature": None if temperature is None else orjson.Fragment(f32_text(temperature)),
        "max_tokens": max_tokens,
    }
    for name, value in additional:
        fields[name] = free_json(value)
    return orjson.dumps(fields)


def struct_ends(
    system: str,
    temperature: float | None,
    max_tokens: int | None,
    additional: Iterable[tuple[str, JsonValue]] = (),
) -> tuple[bytes, bytes]:
    """What stands before the messages in :func:`struct_bytes`, and what stands behind them."""
    head = orjson.dumps({"system": system, "messages": []})[: -len(b"]}")]
    return head, struct_bytes(system, (), temperature, max_tokens, additional)[len(head) :]


def struct_item(message: Mapping[str, Any]) -> bytes:
    """One message, as it stands in :func:`struct_bytes` between the commas."""
    return orjson.dumps(message)


def exchange_bytes(
    upstream: str, method: str, path: str, query: Iterable[tuple[str, str]], body: JsonValue
) -> bytes:
    """The bytes whose hash is the key of a recorded HTTP call that is not a completion."""
    parts = [upstream, method, path, sorted([name, value] for name, value in query), body]
    return _EXCHANGE_DOMAIN + orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _round_to_f32(value: float) -> float:
    """The f32 nearest to ``value``.

    Raises:
        OverflowError: ``value`` is beyond the range of f32.
    """
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


def f32_text(value: float) -> str:
    """``value`` as an f32 is written in the contract: the shortest digits that name that f32.

    Every temperature people use takes the first road: a decimal of at most six digits names one
    f32 and is itself the shortest name of it.
    """
    text = repr(value)
    if len(text) <= 7 and "e" not in text:
        return text
    value = _round_to_f32(value)
    sign = "-" if str(value).startswith("-") else ""
    if value == 0:
        return sign + "0.0"
    digits, exponent = _shortest_f32_digits(abs(value))
    return sign + _layout(digits, exponent)


def _shortest_f32_digits(value: float) -> tuple[str, int]:
    """The fewest digits that round to ``value`` as f32, the closest of equally few (of two
    equally close the even one), and the decimal exponent of the first of them."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    biased, fraction = bits >> 23, bits & 0x7FFFFF
    mantissa = fraction | 0x800000 if biased else fraction
    unit = Fraction(2) ** (max(biased, 1) - 150)
    exact = mantissa * unit
    # Below a power of two the neighbours stand twice as close.
    gap_below = unit / 2 if fraction == 0 and biased > 1 else unit
    low, high = exact - gap_below / 2, exact + unit / 2
    ends_count = mantissa % 2 == 0  # ties round to the even mantissa
    first = int(f"{value:.17e}".partition("e")[2])
    for count in range(1, 10):
        step = Fraction(10) ** (first - count + 1)
        below = exact // step
        inside = [
            n for n in (below, below + 1) if low < n * step < high or (ends_count and n * step in (low, high))
        ]
        if inside:
            best = min(inside, key=lambda n: (abs(n * step - exact), n % 2))
            digits = str(best)
            return digits.rstrip("0"), first - count + len(digits)
    raise AssertionError("nine digits always suffice for an f32")


def _layout(digits: str, exponent: int) -> str:
    """Digits and exponent as f32 text: positional from 1e-6 up to below 1e+13."""
    if not -6 <= exponent <= 12:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{digits[0]}{tail}e{exponent:+d}"
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"
