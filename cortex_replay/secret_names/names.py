"""Which names name a secret: of environment variables, headers, fields of objects, settings.

A name is read word by word (``PGPASSWORD``, ``x-api-key``, ``clientSecret``), so that ``KEYBOARD`` holds no
key and ``AUTHOR`` no auth. Its last word decides most: ``TOKEN_URL`` is a URL, ``KEY_COUNT`` a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

__all__ = [
    "CREDENTIAL_FIELDS",
    "CREDENTIAL_PARAMETERS",
    "KEY_HEADERS",
    "SECRET_HEADERS",
    "is_certainly_secret",
    "is_secret_field",
    "is_secret_header",
    "is_secret_setting",
    "is_secret_variable",
    "is_webhook",
]

_WORDS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST_NAME: Final = 200

KEY_HEADERS: Final = frozenset(["authorization", "x-api-key", "x-goog-api-key", "api-key"])
"""Headers in which providers of models take a key, in small letters."""
SECRET_HEADERS: Final = KEY_HEADERS | frozenset(
    [
        *("proxy-authorization", "x-auth-token", "cookie", "set-cookie", "x-amz-security-token"),
        *("x-vault-token", "private-token"),
    ]
)
"""Headers whose value is a secret, in small letters."""
CREDENTIAL_PARAMETERS: Final = frozenset(
    [
        *("access_token", "api-key", "api_key", "apikey", "auth", "authorization", "client_secret", "key"),
        *("password", "secret", "sig", "signature", "token"),
    ]
)
"""Names in a query whose values take no part in a key. The list is part of every recorded key: it stays."""
CREDENTIAL_FIELDS: Final = frozenset(["access_token", "api-key", "api_key", "apikey", "client_secret"])
"""The same at the top of a JSON body for a server of no model. It is shorter: ``key`` and ``token`` may be
what is asked about, and another password gets another answer."""

_SECRET: Final = frozenset(
    [
        *("password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets"),
        *("credential", "credentials", "authorization", "bearer", "apikey", "apikeys", "accesskey"),
        *("secretkey", "privatekey", "authkey", "mnemonic"),
    ]
)
"""These say it alone, whatever stands beside them."""
_SECRET_ENDINGS: Final = (
    *("password", "passwd", "passphrase", "secret", "credential", "credentials", "apikey", "apitoken"),
    *("authtoken", "accesstoken", "refreshtoken", "bottoken", "bearertoken", "accesskey", "secretkey"),
    *("privatekey", "signingkey", "encryptionkey", "masterkey", "authkey", "sessiontoken", "usertoken"),
    *("clienttoken", "deploytoken", "idtoken", "servicetoken", "personaltoken", "apptoken"),
)
"""Of a word that is several written as one: ``pgpassword``, ``authtoken``."""
_SECRET_IN_VARIABLES: Final = frozenset(
    [
        "pass",
        "pat",
        "pats",
        "salt",
        "pepper",
        "cookie",
        "jwt",
        "sshpass",
        "dbpass",
        "userpass",
        "creds",
        "cred",
        "pw",
        "bindpw",
        "rootpw",
        "mysqlpass",
    ]
)
"""In a text these are words like others; a variable is named with more care."""

_CERTAIN_IN_VARIABLES: Final = frozenset(["pass", "sshpass", "dbpass", "userpass", "jwt", "creds", "cred"])
"""Of these, the ones that are called so for nothing else."""
_KEY_KINDS: Final = frozenset(
    [
        *("api", "access", "private", "auth", "oauth", "signing", "encryption", "master"),
        *("subscription", "application"),
    ]
)
"""A key of these kinds is a secret wherever it is named."""
_PUBLIC: Final = frozenset(["public", "publishable"])
_OPEN_KEYS: Final = _PUBLIC | frozenset(
    [
        *("primary", "foreign", "cache", "sort", "partition", "idempotency"),
        *("idempotence", "row", "group", "object", "lookup", "hot", "shortcut", "map", "record", "item"),
        *("message", "routing", "event", "dedup", "deduplication", "translation", "locale", "compose"),
        *("meta", "modifier", "option", "unique", "natural", "composite", "surrogate", "range", "shard"),
        *("project", "registry", "context", "label", "tag", "feature", "flag", "metric", "gpg", "pgp"),
        *("issue", "ticket", "topic", "config", "document", "doc", "page", "column", "field"),
        *("keyboard", "arrow", "bucket", "dict", "json", "prefix", "current", "next", "search", "order"),
    ]
)
"""A key of these kinds is none: it finds a thing, or everybody may have it."""
_TOKEN_KINDS: Final = frozenset(
    [
        *("api", "access", "auth", "refresh", "bot", "bearer", "session", "personal", "deploy", "user"),
        *("client", "app", "id", "service", "admin", "registry", "security"),
    ]
)
"""Many ``tokens`` are what a model counts, unless they are of these kinds."""
_OPEN_TOKENS: Final = frozenset(
    [
        *("page", "pagination", "next", "prev", "previous", "continue", "continuation", "cursor", "sync"),
        *("cancel", "cancellation", "csrf", "xsrf", "public", "publishable", "eos", "bos", "pad", "unk"),
        *("sep", "mask", "stop", "max", "min", "start", "end", "nextpage", "special"),
    ]
)
"""A token of these kinds opens nothing."""

_OTHER_THINGS: Final = frozenset(
    [
        *("id", "ids", "name", "names", "count", "counts", "limit", "limits", "at", "hash", "hashes"),
        *("digest", "type", "types", "kind", "url", "urls", "uri", "uris", "path", "paths", "file"),
        *("files", "filename", "dir", "directory", "folder", "length", "len", "size", "sizes", "ttl"),
        *("timeout", "expiry", "expires", "expiration", "lifetime", "age", "enabled", "disabled"),
        *("required", "optional", "version", "format", "suffix", "header", "headers", "field"),
        *("param", "parameter", "env", "variable", "arn", "region", "provider", "issuer", "audience"),
        *("algorithm", "alg", "endpoint", "host", "port", "server", "store", "policy", "rotation"),
        *("mode", "hint", "parallelism", "index", "budget", "usage", "rate", "cost", "price"),
        *("sock", "socket", "info", "agent", "pid", "cmd", "command", "helper", "program", "method"),
        *("scope", "scopes", "ref", "refs", "source", "status", "state", "domain", "location"),
        *("addr", "address", "proto", "protocol", "regex", "samesite", "separator"),
        *("strategy", "manager", "backend", "engine", "class", "label", "prompt", "description"),
        *("minutes", "seconds", "days", "hours", "ms", "sec", "fingerprint", "placeholder", "rules"),
    ]
)
"""What a name ends with that is about a secret, and not one."""
_WEBHOOKS: Final = frozenset(["webhook", "webhooks", "webhookurl", "url", "urls", "uri", "endpoint"])
_KNOWN_BY_NAME: Final = frozenset(
    [
        *("rediscli_auth", "docker_auth_config", "npm_config__auth", "secret_key_base", "vault_secret_id"),
        *("bw_session", "fastlane_session", "spaceship_session"),
    ]
)
_KNOWN_BY_START: Final = "op_session_"
_WORKING_FOLDERS: Final = frozenset(["pwd", "oldpwd"])
_SECRET_IN_SETTINGS: Final = frozenset(["key", "keys", "auth", "token"])


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret, if it holds anything."""
    return _is_secret_variable(name[:_LONGEST_NAME])


def is_certainly_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret even if its value is words, as ``DB_PASS`` does."""
    words = _words(name[:_LONGEST_NAME])
    return name.lower() in _KNOWN_BY_NAME or not _CERTAIN_IN_VARIABLES.isdisjoint(words)


def is_secret_field(name: str) -> bool:
    """Whether a value of this name, in a text or an object, is a secret if it looks like one.

    Texts are full of names, so this is stricter than :func:`is_secret_variable`.
    """
    return _is_secret_field(name[:_LONGEST_NAME])


def is_secret_header(name: str) -> bool:
    """Whether a header's value is a secret."""
    return name.lower() in SECRET_HEADERS or is_secret_variable(name)


def is_secret_setting(name: str) -> bool:
    """Whether somebody who wrote a setting of this name probably meant to write a key there."""
    words = _words(name[:_LONGEST_NAME])
    return any(word in _SECRET_IN_SETTINGS or _is_secret_word(word) for word in words)


def is_webhook(name: str) -> bool:
    """Whether a variable holds a URL whose path is the secret."""
    words = _words(name[:_LONGEST_NAME])
    return any(word.startswith("webhook") for word in words) and words[-1] in _WEBHOOKS


@lru_cache(4096)
def _is_secret_variable(name: str) -> bool:
    if name.lower() in _WORKING_FOLDERS:
        return False
    if name.lower() in _KNOWN_BY_NAME or name.lower().startswith(_KNOWN_BY_START):
        return True
    words = _words(name)
    if not words or words[-1] in _OTHER_THINGS:
        return False
    return (
        _is_secret(words)
        or not _SECRET_IN_VARIABLES.isdisjoint(words)
        or words[-1] == "auth"
        or (words[-1] in ("key", "keys") and _OPEN_KEYS.isdisjoint(words))
    )


@lru_cache(4096)
def _is_secret_field(name: str) -> bool:
    words = _words(name)
    return bool(words) and words[-1] not in _OTHER_THINGS and _is_secret(words)


def _is_secret(words: Sequence[str]) -> bool:
    if any(map(_is_secret_word, words)):
        return True
    if "token" in words:
        return _OPEN_TOKENS.isdisjoint(words)
    return any(
        (word == "tokens" and before in _TOKEN_KINDS)
        or (word in ("key", "keys") and before in _KEY_KINDS and _PUBLIC.isdisjoint(words))
        for before, word in pairwise(words)
    )


def _is_secret_word(word: str) -> bool:
    return word in _SECRET or word.endswith(_SECRET_ENDINGS)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
