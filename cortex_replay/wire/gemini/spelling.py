"""One spelling for what Gemini's API reads in several.

It takes the names of fields in camel case and with underscores, and SDKs mix both in one body; types of a
schema in capitals, as its own definition has them, or as JSON Schema writes them; data in either alphabet of
base64.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.body import Block

__all__ = ["json_schema_of", "plain_base64", "unify_names"]

_UNDERSCORE: Final = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_FREE: Final = frozenset(
    ["args", "default", "example", "labels", "parametersJsonSchema", "response", "responseJsonSchema"]
)
"""Fields that hold what the caller likes, names included."""
_BY_NAME: Final = frozenset(["properties", "defs", "$defs"])
"""Fields whose names are the caller's, and whose values are not."""
_COUNTS: Final = frozenset(
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]
)
_SCHEMAS: Final = frozenset(["items", "additionalProperties"])
_LISTS_OF_SCHEMAS: Final = frozenset(["anyOf", "prefixItems"])
_DEEPEST: Final = 200


def unify_names(document: Block) -> Block:
    """A document with every name in camel case, and without what is ``null``.

    Raises:
        InvalidRequest: It is nested too deeply.
    """
    return _unify_object(document, 0)


def _unify_object(document: Block, depth: int) -> Block:
    unified: Block = {}
    for name, value in document.items():
        camel = _UNDERSCORE.sub(lambda letter: letter[1].upper(), name)
        if camel != name and camel in document:
            camel = name  # said twice; the API will not have it, and both count
        if value is not None:
            unified[camel] = _unify_value(camel, value, depth)
    return unified


def _unify_value(name: str, value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise InvalidRequest("body", "is nested too deeply")
    if name in _FREE:
        return value
    if isinstance(value, dict):
        if name in _BY_NAME:
            return {own: _unify_value("", inner, depth + 1) for own, inner in value.items()}
        return _unify_object(value, depth + 1)
    if isinstance(value, list):
        return [_unify_value("", item, depth + 1) for item in value]
    return value


def json_schema_of(schema: JsonValue) -> JsonValue:
    """A schema of the API's own kind as JSON Schema has it: types in small letters, counts as numbers.

    The two say the same to the model, and to whoever checks its answer.
    """
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, JsonValue] = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str):
            plain[name] = value.lower()
        elif name in _COUNTS and isinstance(value, str) and value.isascii() and value.isdigit():
            plain[name] = int(value[:20])
        elif name in _BY_NAME and isinstance(value, dict):
            plain[name] = {own: json_schema_of(inner) for own, inner in value.items()}
        elif name in _SCHEMAS:
            plain[name] = json_schema_of(value)
        elif name in _LISTS_OF_SCHEMAS and isinstance(value, list):
            plain[name] = [json_schema_of(inner) for inner in value]
        else:
            plain[name] = value
    return plain


def plain_base64(data: str) -> str:
    """Data in the alphabet that everybody else uses, with its padding."""
    plain = data.replace("-", "+").replace("_", "/")
    return plain + "=" * (-len(plain) % 4)
