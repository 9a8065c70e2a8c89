"""What a request asks of its answer: JSON, a schema, which tools may be called and with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest

__all__ = ["Contract"]

_JSON_FORMATS: Final = frozenset(["json_object", "json_schema", "json"])
_JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Contract:
    """What an answer is held against."""

    wants_json: bool = False
    schema: JsonValue = None
    tools: Mapping[str, JsonValue] = field(default_factory=dict)
    """The schemas of the arguments of the offered tools; ``None`` for one without."""
    is_closed: bool = False
    """Whether a tool that is not among them was not offered."""

    @classmethod
    def of(cls, request: LlmRequest | None) -> Self:
        """What a request asks; nothing where it is not known."""
        if request is None:
            return cls()
        tools: dict[str, JsonValue] = {}
        is_closed = True
        for tool in request.tools:
            name, schema = _tool(tool)
            if name is None:
                is_closed = False  # a provider's own, which may call itself anything
            else:
                tools[name] = schema
        schema = request.json_schema
        if schema is None:
            schema = _schema_in(request.extra)
        return cls(schema is not None or _wants_json(request.extra), schema, tools, is_closed)


def _tool(tool: JsonValue) -> tuple[str | None, JsonValue]:
    """The name of an offered tool, and the schema of its arguments, also where no wire lifted it."""
    match tool:
        case {"function": dict(function)}:
            return _tool(function)
        case {"name": str(name), **rest}:
            schemas = (rest.get(field) for field in ("input_schema", "parameters", "inputSchema"))
            return name, next((schema for schema in schemas if isinstance(schema, dict | bool)), None)
    return None, None


def _formats(extra: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The output formats that stand where the wires put them, if they are not lifted."""
    held = [extra.get("text"), extra.get("output_config"), extra]
    formats = [extra.get("response_format"), extra.get("output_format")]
    return formats + [holder.get("format") for holder in held if isinstance(holder, dict)]


def _wants_json(extra: Mapping[str, JsonValue]) -> bool:
    for form in _formats(extra):
        kind = form.get("type") if isinstance(form, dict) else form
        if isinstance(kind, str) and kind in _JSON_FORMATS:
            return True
    return _generation(extra).get("responseMimeType") == _JSON_TYPE


def _schema_in(extra: Mapping[str, JsonValue]) -> JsonValue:
    """A schema that its wire could not lift, since something unknown stands beside it."""
    for form in _formats(extra):
        match form:
            case {"json_schema": {"schema": dict(found)}} | {"schema": dict(found)}:
                return found
    given = _generation(extra).get("responseJsonSchema")
    return given if isinstance(given, dict) else None


def _generation(extra: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    config = extra.get("generationConfig")
    return config if isinstance(config, dict) else {}
