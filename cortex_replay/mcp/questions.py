"""What an MCP call is found by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.blobs import change_blobs, decode_blob
from cortex_replay.mcp.messages import INITIALIZE, TOOLS_CALL, VERSION_FIELD

__all__ = [
    "MCP",
    "PROMPTS_GET",
    "RESOURCES_READ",
    "STANDS_ALONE",
    "SUBJECTS",
    "UPSTREAM_PREFIX",
    "name_call",
    "question_of",
    "server_in",
    "stands_alone",
    "subject_of",
    "without_bytes",
]

MCP: Final = "MCP"
"""What stands for the method of a recorded call."""
UPSTREAM_PREFIX: Final = "mcp:"
PROMPTS_GET: Final = "prompts/get"
RESOURCES_READ: Final = "resources/read"
SUBJECTS: Final = {
    TOOLS_CALL: ("tool", "name"),
    PROMPTS_GET: ("prompt", "name"),
    RESOURCES_READ: ("resource", "uri"),
}
"""What some methods are about: what it is, and which parameter names it."""
STANDS_ALONE: Final[list[JsonValue]] = [["session", "none"]]
"""The query of a call that belongs to no session."""


def question_of(server: str, method: str, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What is asked of a server, as an exchange has it.

    Args:
        server: Its name.
        method: Of the protocol.
        parameters: As the client sent them. Of a tool and a prompt, no arguments, empty ones and ``null`` are
            one and the same: clients write it in all three ways. So is no cursor and ``null``.
    """
    left_out = {"_meta", "clientInfo"} if method == INITIALIZE else {"_meta"}
    body = {name: without_bytes(value) for name, value in parameters.items() if name not in left_out}
    if method in (TOOLS_CALL, PROMPTS_GET):
        body["arguments"] = body.get("arguments") or {}
    if body.get("cursor", "") is None:
        del body["cursor"]
    return {
        "upstream": UPSTREAM_PREFIX + server,
        "method": MCP,
        "path": method,
        "query": _era(parameters),
        "body": body,
    }


def _era(parameters: dict[str, JsonValue]) -> JsonValue:
    """Says that a request stands alone, as in 2026-07-28 and later: it names its version, and a client that
    does so cannot read the answers of a session."""
    meta = parameters.get("_meta")
    return [*STANDS_ALONE] if isinstance(meta, dict) and VERSION_FIELD in meta else []


def stands_alone(request: Mapping[str, JsonValue]) -> bool:
    """Whether a call was made without a session, as in 2026-07-28 and later."""
    return request.get("query") == STANDS_ALONE


def server_in(request: Mapping[str, JsonValue] | None) -> str | None:
    """The name of the server that a recorded call asked, if it is one of MCP."""
    match request:
        case {"method": "MCP", "upstream": str(upstream)} if upstream.startswith(UPSTREAM_PREFIX):
            return upstream.removeprefix(UPSTREAM_PREFIX)
    return None


def subject_of(request: Mapping[str, JsonValue]) -> str | None:
    """The tool, the prompt or the resource that a call is about, if it is about one."""
    _, parameter = SUBJECTS.get(str(request.get("path")), ("", ""))
    body = request.get("body")
    found = body.get(parameter) if isinstance(body, dict) else None
    return found if isinstance(found, str) else None


def name_call(request: Mapping[str, JsonValue]) -> str:
    """A call as people name it: ``tool get-sum of server every``."""
    method, subject = str(request.get("path")), subject_of(request)
    what = method if subject is None else f"{SUBJECTS[method][0]} {subject}"
    return f"{what} of server {str(request.get('upstream')).removeprefix(UPSTREAM_PREFIX)}"


def without_bytes(value: JsonValue) -> JsonValue:
    """A value in which pictures, sound and blobs count by their hash."""
    return change_blobs(value, _hash)


def _hash(encoded: str) -> JsonValue:
    data = decode_blob(encoded)
    return encoded if data is None else {"blake3": blake3_hex(data), "bytes": len(data)}
