"""What a test can ask of the gateway itself, below ``/-/``, and what a process behind it can report."""

from __future__ import annotations

from typing import Final

import orjson

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.engine.ledger import LedgerPart
from cortex_replay.errors import InvalidRequest
from cortex_replay.faults import Fault, Faults

__all__ = ["CONTROL", "control"]

CONTROL: Final = "/-/"
"""Where it stands: no provider has such a path."""


def control(path: str, method: str, body: bytes, run: RunCore, faults: Faults) -> HttpReply:
    """The answer to a call of a test to the gateway itself."""
    try:
        if path == "/-/faults":
            if method in ("PUT", "POST"):
                _set(body, faults)
            elif method == "DELETE":
                faults.set(())
            return _json(200, {"faults": faults.spellings(), "struck": dict(faults.struck)})
        if path == "/-/ledger":
            if method == "POST":
                run.ledger.merge(LedgerPart.parse(_read(body)))
            return _json(200, run.ledger.to_dict(run.store))
    except InvalidRequest as error:
        return _json(400, {"error": {"message": f"cortex-replay: {error}", "field": error.field}})
    return _json(404, {"error": {"message": "cortex-replay: there are /-/faults and /-/ledger"}})


def _set(body: bytes, faults: Faults) -> None:
    """Take ``{"faults": [...], "scope": "..."}``; without a scope they are for all."""
    match _read(body):
        case {"faults": [*texts], **rest} if all(isinstance(text, str) for text in texts) and rest.keys() <= {
            "scope"
        }:
            scope = rest.get("scope")
            if scope is None or isinstance(scope, str):
                faults.set([Fault.parse(text) for text in texts], scope)
                return
    raise InvalidRequest("body", 'expected {"faults": ["429@2", ...], "scope": "..."}')


def _read(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidRequest("body", "is not JSON") from None


def _json(status: int, value: object) -> HttpReply:
    return HttpReply(status, (("content-type", "application/json"),), orjson.dumps(value))
