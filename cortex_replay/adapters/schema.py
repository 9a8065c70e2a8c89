"""Answers to a request with a schema: parsed, and held against it."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import NoReturn

import jsonschema_rs
import orjson

from cortex_replay.canonical import compact
from cortex_replay.errors import InvalidRequest, ResponseParse
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmRequest, LlmResponse

__all__ = ["check_schema", "with_parsed_json"]


def check_schema(request: LlmRequest) -> None:
    """Refuse a schema that no answer could be held against, before a token is spent on it.

    Raises:
        InvalidRequest: The schema is not a JSON schema, or refers to something outside of itself.
    """
    if request.json_schema is not None:
        _validator(compact(request.json_schema))


def with_parsed_json(request: LlmRequest, response: LlmResponse) -> LlmResponse:
    """The response with its text parsed, where the request has a schema.

    A model that calls tools has not answered yet, whatever it says beside.

    Raises:
        ResponseParse: The text is not JSON, or breaks the schema.
    """
    if request.json_schema is None or response.tool_calls:
        return response
    try:
        parsed = loads(response.text.encode())
    except JsonError as error:
        reason = f"the answer to a request with a schema is not JSON ({error})"
        raise ResponseParse(f"{reason}; finish reason: {response.finish_reason}") from None
    problem = next(_validator(compact(request.json_schema)).iter_errors(parsed), None)
    if problem is not None:
        place = "/".join(map(str, problem.instance_path)) or "the top"
        raise ResponseParse(f"the answer breaks the schema at {place}: {problem.message}")
    return dataclasses.replace(response, parsed_json=parsed)


@lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Validator:
    document = orjson.loads(schema)
    if not isinstance(document, dict | bool):
        raise InvalidRequest("json_schema", "is neither an object nor true or false")
    try:
        # What a model said does not belong into a message, which may end up in a log.
        return jsonschema_rs.validator_for(document, retriever=_stay_here, mask="a value")
    except jsonschema_rs.ValidationError as error:
        reason = f"cannot be used: {error.message}"
    raise InvalidRequest("json_schema", reason)


def _stay_here(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema, and is not fetched")
