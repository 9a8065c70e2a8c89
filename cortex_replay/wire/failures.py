"""Errors as providers write them. Compatible servers mix the shapes, so every wire reads them all."""

from __future__ import annotations

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import Upstream

__all__ = ["error_in", "upstream_error"]


def error_in(answer: JsonValue, status: int) -> Upstream | None:
    """The error that a document reports, if it is one."""
    if isinstance(answer, list) and len(answer) == 1:  # a stream of Gemini's that is no stream of events
        answer = answer[0]
    if not isinstance(answer, dict):
        return None
    error = answer.get("error")
    if isinstance(error, dict) and error:
        kinds = [error.get(name) for name in ("type", "code", "status")]
        kind = next((kind for kind in kinds if kind and isinstance(kind, str)), None)
        return _error(status, error.get("message"), kind)
    if error:  # empty ones are how some servers say that there is none
        return _error(status, error if isinstance(error, str) else str(error), None)
    if answer.get("type") == "error":  # the error event of Responses is flat
        return _error(status, answer.get("message"), answer.get("code"))
    return None


def upstream_error(status: int, content_type: str, body: bytes) -> Upstream:
    """What a body with an error status says; one in no known shape is shown only if it is text."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    found = error_in(document, status)
    if found is not None:
        return found
    if isinstance(document, dict):
        for name in ("message", "detail"):
            if isinstance(document.get(name), str):
                return _error(status, document[name], document.get("type") or document.get("__type"))
    if content_type.startswith("text/plain"):
        return _error(status, body.decode(errors="replace").strip(), None)
    return _error(status, f"({content_type or 'no content type'}, {len(body)} bytes)", None)


def _error(status: int, message: object, kind: object) -> Upstream:
    text = message if isinstance(message, str) else "(no message)"
    # Half of a surrogate pair cannot come: the reader refuses it.
    return Upstream(status, text, kind if isinstance(kind, str) else None)
