"""Secrets that have no shape of their own and are told by what stands beside them.

Each looks at the runs of a text (:func:`~cortex_replay.redact.views.runs_of`) and at a few characters
around each, so a text without runs costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from cortex_replay.redact.randomness import is_example, is_mixed, is_random
from cortex_replay.redact.views import SHORTEST_RUN, Span, decode_base64
from cortex_replay.secret_names.names import is_secret_field
from cortex_replay.secret_names.values import is_plain

__all__ = ["ASSIGNMENT", "CONTEXT_RULES", "is_secret_by_name", "secrets_in_context"]

ASSIGNMENT: Final = "assignment"
CONTEXT_RULES: Final = ("aws-secret-key", "discord", "telegram", ASSIGNMENT)

_LOOK_BACK: Final = 64
_AWS_LOOK_BACK: Final = 200
_LONGEST_VALUE: Final = 512

_VALUE: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
_BETWEEN_WORDS: Final = re.compile("[_.-]")
_CLOSING: Final = "\"'`\n\r\t ,;)]}&|\\\x00"
_QUOTES: Final = "\"'`"
_NAME_CHARACTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

_AWS_WORDS: Final = ("ecret", "ECRET", "aws", "AWS", "AKIA", "ASIA", "ABIA", "ACCA", "A3T")
_AWS_ID: Final = re.compile(r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])")
_AWS_NAMED: Final = re.compile(
    r"""(?ix) (?: aws[_.-][a-z0-9_.-]{0,32} | secret[_-]?access[_-]?key ) ["'`\])]{0,3} [ \t]{0,8}
    (?: [:=]=? | => | , | [ \t] ) [ \t\n]{0,8} ["'`]{0,3} \Z"""
)
_BOT_NUMBER: Final = re.compile(r"[0-9]{6,12}:\Z")
_BOT_TOKEN: Final = re.compile(r"A[A-Za-z0-9_-]{34}(?![A-Za-z0-9])")
_DISCORD_REST: Final = re.compile(r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+")


def secrets_in_context(text: str, runs: Iterable[Span]) -> Iterator[tuple[int, int, str]]:
    """Where a run of a text is a secret because of its surroundings, and by which rule."""
    may_be_aws: bool | None = None
    for start, end in runs:
        length = end - start
        if length == 40 and may_be_aws is None:
            may_be_aws = any(word in text for word in _AWS_WORDS)
        if length == 40 and may_be_aws and _is_aws_secret(text, start, end):
            yield start, end, "aws-secret-key"
        elif 22 <= length <= 64 and text.startswith(".", end) and (part := _discord(text, start, end)):
            yield *part, "discord"
        elif length >= 35 and text[start] == "A" and (part := _telegram(text, start)):
            yield *part, "telegram"
        elif length <= _LONGEST_VALUE and (part := _assignment(text, start, end)):
            yield *part, ASSIGNMENT


def is_secret_by_name(name: str, value: str) -> bool:
    """Whether an entry of an object is a secret because of its name: ``{"api_key": …}``."""
    return SHORTEST_RUN <= len(value) <= _LONGEST_VALUE and is_secret_field(name) and _is_secret_value(value)


def _assignment(text: str, start: int, end: int) -> Span | None:
    """A value that looks random and is called an API key, a token, a password."""
    if not is_secret_field(_name_of(text[max(0, start - _LOOK_BACK) : start])):
        return None
    for _ in range(2):
        end += text.startswith("=", end)
    if end < len(text) and text[end] not in _CLOSING:
        return None  # a call, an attribute: the run is only a part of something
    return (start, end) if _is_secret_value(text[start:end]) else None


def _name_of(before: str) -> str:
    """What a value is called, told from what stands before it; "" if it is called nothing."""
    mark = before.rstrip(_QUOTES).rstrip()
    if mark[-1:] not in ("=", ":", ">", ",") or (mark[-1] == "," and mark[-2:-1] not in tuple(_QUOTES)):
        return ""
    named = mark.rstrip("=:>,").rstrip().rstrip(_QUOTES + "])")
    name = named[len(named.rstrip(_NAME_CHARACTERS)) :]
    # In a list of names each seems to be called by the one before: only its last words count there.
    return "_".join(_BETWEEN_WORDS.split(name)[-2:]) if mark[-1] == "," else name


def _is_secret_value(value: str) -> bool:
    if _VALUE.fullmatch(value) is None or not is_random(value) or is_example(value):
        return False
    return not value.startswith("/") or not is_plain(value)  # a path, or one of 64 base64 values


def _is_aws_secret(text: str, start: int, end: int) -> bool:
    """Whether forty characters of base64 stand near an access key's id, or are called an AWS secret."""
    value = text[start:end]
    if "-" in value or "_" in value or text.startswith("=", end):
        return False
    if not value.strip("0123456789abcdef") or not value.strip("0123456789ABCDEF"):
        return False  # a digest
    if is_example(value) or not is_mixed(value):
        return False
    return _AWS_NAMED.search(text, max(0, start - _LOOK_BACK), start) is not None or any(
        not is_example(match[0])
        for match in _AWS_ID.finditer(text, max(0, start - _AWS_LOOK_BACK), end + _AWS_LOOK_BACK)
    )


def _discord(text: str, start: int, end: int) -> Span | None:
    """A bot's token: its number as base64, a time, a signature, with dots between."""
    match = _DISCORD_REST.match(text, end)
    if match is None:
        return None
    head = re.split("[/+_-]", text[start:end])[-1]  # digits as base64 have none of these
    return (end - len(head), match.end()) if decode_base64(head).isdigit() else None


def _telegram(text: str, start: int) -> Span | None:
    """A bot's token: its number, a colon, and thirty-five characters."""
    match = _BOT_TOKEN.match(text, start)
    if match is None or not _BOT_NUMBER.search(text, max(0, start - 16), start):
        return None
    return match.span()
