"""What of a variable's value is the secret, and which values are none.

``DB_PASSWORD=password`` is called a secret and is a word: looked for, it would be found in every tool that
has a property of that name. ``DATABASE_URL=postgres://u:…@h/db`` is called nothing and holds a password.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from cortex_replay.secret_names.names import (
    SECRET_HEADERS,
    is_certainly_secret,
    is_secret_field,
    is_secret_header,
    is_secret_variable,
    is_webhook,
)
from cortex_replay.secret_names.wordlike import is_word, reads_like_words, spells_words

__all__ = [
    "SHORTEST_SECRET",
    "has_secret",
    "is_dummy",
    "is_plain",
    "secrets_in",
    "secrets_in_header",
]

SHORTEST_SECRET: Final = 8
"""A shorter text would be found in places where it means nothing."""

_MOST_LOOKED_AT: Final = 64 * 1024
_DEEPEST_JSON: Final = 8
_DUMMY_WORDS: Final = (
    "a|access|admin|anonymous|any|api|app|bar|baz|change|changeit|ci|client|db|default|demo|dev|develop|development"
    "|disabled|dummy|empty|example|fake|false|foo|foobar|for|guest|here|insert|invalid|is|it|key|letmein"
    "|local|localhost|me|minio|minioadmin|mock|mongo|my|mysql|needed|no|none|not|null|of|off|on|only|pass|passwd"
    "|password|passw0rd|paste|placeholder|postgres|postgresql|prod|production|pwd|qux|qwerty|rabbitmq|real|redacted"
    "|redis|replace|required|root|sample|secret|set|sk|staging|stub|super|supersecret|test|testing|tests|the|this"
    "|to|todo|token|true|undefined|unset|unused|user|username|value|with|your|ollama|studio|lm|key1|key2"
)
_DUMMY: Final = re.compile(
    rf"(?i)(?:{_DUMMY_WORDS})[0-9]{{0,4}}!?(?:[-_. ]?(?:{_DUMMY_WORDS})[0-9]{{0,4}}){{0,8}}!?"
    r"|hunter2|[0-9]{0,7}|0?1234567?8?9?0?|(.)\1*"
)
_TEMPLATE: Final = re.compile(
    r"\$[({].*|\$[0-9@*#?]|`.*|\$(?:[A-Z_][A-Z0-9_]*|[a-z_]+|[a-z]+(?:[A-Z][a-z]+)+)|<[^>]*>|\{\{.*\}\}|\{\w*\}|%\(\w+\)s|%[A-Z_]\w*%|\[[^\]]*\]|.*\.\.\.|\*{3,}.*",
    re.DOTALL,
)
_REFERENCE: Final = re.compile(r"(?:arn|env|file|unix|vault|ref\+\w+):[^\s]*|[a-z][a-z0-9+-]{1,15}://[^\s@]*")
_ROOTS: Final = re.compile(
    r"(?:~[\w-]*|\.{1,2})/|[A-Za-z]:[\\/]|\\\\\w"
    r"|/(?:app|bin|builds|certs|cygdrive|data|dev|etc|github|home|keys|Library|media|mnt|nix|opt|private|proc|root|run"
    r"|secrets|snap|srv|sys|tmp|Users|usr|var|vault|Volumes|workspace)(?:/|\Z)"
)
_IS_BASE64: Final = re.compile("[A-Za-z0-9+/]{16,}={0,2}")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/?#\"']{0,1024})([^\s\"']{0,4096})")
_PAIR: Final = re.compile(
    r"""(?:\A|(?<=[;,&?\s{-]))["']?([A-Za-z_][\w.-]{1,80})["']?\s?[=:]\s?(?:(?:Bearer|Basic|Token|bearer|token)\s)?
    ("[^"]{0,4096}"|'[^']{0,4096}'|[^\s;,&"']{1,4096})""",
    re.VERBOSE,
)
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w-]{16,}", re.ASCII)
"""The last part of a URL that is a secret as a whole."""
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token)\s+(\S.*)", re.DOTALL)
_USER_AND_PASSWORD: Final = re.compile(r"[\w.@+-]{1,64}:(\S+)")
_NAME_IN_CODE: Final = re.compile(r"[A-Za-z_.-]+|[A-Za-z_.][\w.=]*\([^()]*\)?[.,]?")
_BREAK: Final = re.compile(r"\\r?\\n|\\n")


def secrets_in(name: str, value: str) -> list[str]:
    """What of a variable must not be stored; nothing for most."""
    found = dict.fromkeys(_candidates(name, _strip(value[:_MOST_LOOKED_AT])))
    return [part for part in found if len(part) >= SHORTEST_SECRET and not is_plain(part)]


def secrets_in_header(name: str, value: str) -> list[str]:
    """What of a header must not be stored: the key behind its scheme, a password, a cookie."""
    if not is_secret_header(name):
        return []
    value = value.strip()[:_MOST_LOOKED_AT]
    found = _cookie_secrets(name, value) if "cookie" in name.lower() else _credential_secrets(value)
    is_named = name.lower() in SECRET_HEADERS or is_secret_field(name)
    return [
        part
        for part in dict.fromkeys(found)
        if len(part) >= SHORTEST_SECRET and not is_plain(part) and (is_named or not spells_words(part))
    ]


def has_secret(name: str, value: str) -> bool:
    """Whether somebody who is to have no secrets must not have this variable.

    A secret may be short here: it is not looked for, it is only kept.
    """
    bare = _strip(value[:_MOST_LOOKED_AT])
    return (is_secret_variable(name) and not is_plain(bare)) or any(
        not is_plain(part) for part in _candidates(name, bare)
    )


def is_plain(value: str) -> bool:
    """Whether a value is no secret, whatever it is called: a word, a path, a placeholder, a switch."""
    return is_dummy(value) or is_word(value) or _is_path(value) or _REFERENCE.fullmatch(value) is not None


def is_dummy(value: str) -> bool:
    """Whether everybody knows it: ``changeme``, ``$PASSWORD``, ``****``."""
    return _DUMMY.fullmatch(value) is not None or _TEMPLATE.fullmatch(value) is not None


def _is_path(value: str) -> bool:
    """A path may hold anything, and one base64 value in 64 begins with a slash."""
    if _ROOTS.match(value):
        return True
    return value.startswith("/") and (_IS_BASE64.fullmatch(value) is None or reads_like_words(value))


def _strip(value: str) -> str:
    """The value without the blanks and quotes that came along from a file."""
    bare = value.strip()
    while len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'`":
        bare = bare[1:-1].strip()
    return bare


def _candidates(name: str, value: str) -> Iterator[str]:
    yield from _url_secrets(value, is_whole=is_webhook(name), is_secret=is_secret_variable(name))
    if value.startswith(("{", "[")):
        yield from _json_secrets(value)
    if "=" in value or ":" in value:
        for match in _PAIR.finditer(value):
            is_named = is_secret_field(match[1]) or is_secret_variable(match[1])
            if is_named and not _is_code(_strip(match[2])):
                yield _strip(match[2])
    if "PRIVATE KEY-----" in value:
        yield _BREAK.sub("\n", value)
    elif _REFERENCE.fullmatch(value) is None and _is_secret(name, value):
        yield from _value_forms(name, value)


def _is_secret(name: str, value: str) -> bool:
    """Whether all of a value is a secret by its name: ``S3_KEY`` may name a file, ``DB_PASS`` does not."""
    is_certain = is_secret_field(name) or is_certainly_secret(name)
    return is_secret_variable(name) and (is_certain or not spells_words(value))


def _value_forms(name: str, value: str) -> Iterator[str]:
    """The value itself, and what it is without what says how to use it."""
    if is_plain(value):
        return
    if not _URL.match(value):
        yield value
    if match := _SCHEME.fullmatch(value):
        yield match[1]
    if match := _USER_AND_PASSWORD.fullmatch(value):
        yield match[1]
    if name.upper().rstrip("0123456789_").endswith("S") or "," in value:
        is_list = not re.search(r"[^\s,;][^\S\n][^\s,;]", value)
        parts = filter(None, re.split(r"[\s,;]+", value))
        yield from (part for part in parts if is_list or not spells_words(part))


def _url_secrets(value: str, *, is_whole: bool, is_secret: bool) -> Iterator[str]:
    for match in _URL.finditer(value):
        user_info, at, host = match[1].rpartition("@")
        user, colon, password = user_info.partition(":")
        if colon and not is_plain(password):
            short = len(password) < SHORTEST_SECRET  # found only where it stands in such a URL
            yield f"{user_info}@{host}" if short else password
            yield unquote(password)
        if at and not password and (len(user) >= 20 or user == "x-access-token"):
            yield user
        path = match[2].rstrip("/")
        is_path_secret = is_whole and not all(map(_is_plain_segment, path.split("/")))
        if is_path_secret or (is_secret and _RANDOM.fullmatch(path.rpartition("/")[2])):
            yield path.lstrip("/")


def _is_plain_segment(segment: str) -> bool:
    """Whether a part of a webhook's path says what it is for, and opens nothing."""
    return len(segment) < 6 or segment.lower().startswith("webhook") or spells_words(segment)


def _is_code(value: str) -> bool:
    """Whether what follows ``token:`` in a message is a name of something, not a token."""
    return _NAME_IN_CODE.fullmatch(value) is not None and spells_words(value)


def _credential_secrets(value: str) -> Iterator[str]:
    """Of a header with parameters those that name a secret: others may be new with every call."""
    scheme, *rest = value.split(None, 1) or [""]
    credentials = rest[0] if rest else scheme
    named = [(match[1], _strip(match[2])) for match in _PAIR.finditer(credentials)]
    yield from (given for parameter, given in named if is_secret_field(parameter))
    if "," not in credentials:
        yield credentials
    if rest and scheme.lower() == "basic":
        with suppress(ValueError):
            decoded = b64decode(credentials + "=" * (-len(credentials) % 4)).decode("utf-8", "replace")
            yield decoded
            yield decoded.partition(":")[2]


def _cookie_secrets(name: str, value: str) -> Iterator[str]:
    """Of a cookie that is set, what follows the first are its attributes."""
    cookies = value.split(";")[: 1 if name.lower().startswith("set-") else None]
    for cookie in cookies:
        content = _strip(cookie.partition("=")[2])
        if not spells_words(content) and not content.isdigit():
            yield content


def _json_secrets(value: str) -> Iterator[str]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return
    yield from _fields_in(document, 0)


def _fields_in(document: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST_JSON:
        return
    if isinstance(document, dict):
        for name, inner in document.items():
            if isinstance(inner, str) and (is_secret_field(name) or is_secret_variable(name)):
                yield inner.strip()
            else:
                yield from _fields_in(inner, depth + 1)
    elif isinstance(document, list):
        for inner in document:
            yield from _fields_in(inner, depth + 1)
