"""Calls that are recorded as they are: token counts, embeddings, lists of models, other providers."""

from __future__ import annotations

import base64
import re
from typing import Final

from cortex_replay.canonical import JsonValue, exchange_bytes
from cortex_replay.engine.http.call import Call, stored_query
from cortex_replay.engine.http.other_calls import is_other
from cortex_replay.hashing import blake3_hex
from cortex_replay.secret_names.names import CREDENTIAL_FIELDS
from cortex_replay.store.exchange import Exchange
from cortex_replay.strict_json import JsonError, loads

__all__ = ["encode_body", "is_probe", "is_worth_keeping", "opaque_exchange", "opaque_key", "opaque_request"]

_BOUNDARY: Final = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)
_PROBED: Final = re.compile(r"|healthz?|livez|readyz?|ping|version|props|ps|tags|models(?:/[^/]+)?")
"""The ends of paths where a server says that it is there, which one it is, and which models it has."""
_PASSING: Final = (401, 403, 408, 409, 425, 429)


def opaque_request(call: Call) -> dict[str, JsonValue]:
    """What is asked, without credentials: the stored form, from which the key is made."""
    body = _body(call)
    if is_other(call.route.upstream) and isinstance(body, dict):
        body = {name: value for name, value in body.items() if name.lower() not in CREDENTIAL_FIELDS}
    return {
        "upstream": call.route.upstream,
        "method": call.method,
        "path": call.route.path,
        "query": stored_query(call.query),
        "body": body,
    }


def opaque_key(request: dict[str, JsonValue]) -> str:
    """What an exchange is found by."""
    query = request["query"]
    pairs = (
        [(str(pair[0]), str(pair[1])) for pair in query if isinstance(pair, list)]
        if isinstance(query, list)
        else []
    )
    written = exchange_bytes(
        str(request["upstream"]), str(request["method"]), str(request["path"]), pairs, request["body"]
    )
    return blake3_hex(written)


def opaque_exchange(request: dict[str, JsonValue], wire: dict[str, JsonValue]) -> Exchange:
    """The exchange to be recorded."""
    return Exchange(wire, key=opaque_key(request), request=request)


def is_probe(call: Call) -> bool:
    """Whether a call only looks at what a model's server is: programs live without the answer."""
    if call.method not in ("GET", "HEAD") or is_other(call.route.upstream):
        return False
    parts = call.route.path.strip("/").split("/")
    return any(_PROBED.fullmatch("/".join(parts[-count:])) for count in (1, 2))


def is_worth_keeping(status: int) -> bool:
    """Whether an answer would be the same tomorrow: a good one, or a refusal for what was asked."""
    return status < 300 or (400 <= status < 500 and status not in _PASSING)


def _body(call: Call) -> JsonValue:
    """A body as it is compared: JSON by value, a form without its random boundary, other bytes by hash."""
    body = call.body
    if not body:
        return None
    boundary = _BOUNDARY.search(call.header("content-type"))
    if boundary is not None:
        body = body.replace(boundary[1].encode(), b"boundary")
    try:
        return loads(body)
    except JsonError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"blake3": blake3_hex(body), "bytes": len(body)}


def encode_body(body: bytes) -> dict[str, JsonValue]:
    """Bytes as a recording holds them."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
