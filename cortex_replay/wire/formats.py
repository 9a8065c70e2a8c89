"""Structured output and tool choice as OpenAI's two wires write them."""

from __future__ import annotations

from collections.abc import Callable

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest
from cortex_replay.wire.body import Block, Body, without_nulls

__all__ = ["encode_choice", "encode_schema", "take_schema"]

_NAME = "answer"
"""OpenAI wants every schema to have a name. It does not count, so any will do."""


def take_schema(holder: Body, name: str, inner: str | None = None, extra: Body | None = None) -> JsonValue:
    """Take the schema out of an output format, if the format is one.

    Args:
        holder: What holds the format.
        name: The format's name in it.
        inner: Where inside the format the schema stands, with its name and the rest.
        extra: Where ``strict`` and the description go; ``holder`` unless given.
    """
    form = holder.get(name)
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    fields = without_nulls(form, "type")
    if inner is not None:
        if set(fields) != {inner} or not isinstance(fields[inner], dict):
            return None
        fields = without_nulls(fields[inner])
    if "schema" not in fields or not set(fields) <= {"schema", "name", "strict", "description"}:
        return None
    del holder[name]
    extra = holder if extra is None else extra
    for ours, theirs in (("strict", "strict"), ("schema_description", "description")):
        if theirs in fields:
            extra[ours] = fields[theirs]
    schema: JsonValue = fields["schema"]
    return schema


def encode_schema(request: LlmRequest, extra: Body) -> Block:
    """The schema with its name and the rest, which are taken out of ``extra``."""
    form: Block = {"name": _NAME, "schema": request.json_schema}
    for ours, theirs in (("strict", "strict"), ("schema_description", "description")):
        if ours in extra:
            form[theirs] = extra.pop(ours)
    return form


def encode_choice(choice: JsonValue, named: Callable[[str], Block]) -> JsonValue:
    """A tool choice; ``named`` writes the choice of one tool."""
    match choice:
        case {"name": str(name), **others} if not others:
            return named(name)
    return choice
