"""JSON-RPC 2.0: bytes in, bytes out, whatever carries them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from cortex_replay.admin.callers import Caller
from cortex_replay.admin.errors import AdminError, Code, error_for
from cortex_replay.canonical import JsonValue
from cortex_replay.strict_json import JsonError, loads

__all__ = ["MAX_BYTES", "Method", "Params", "RpcDispatcher", "too_large", "unknown_caller"]

Params = dict[str, JsonValue] | list[JsonValue] | None
"""By name, by position, or none given."""
Method = Callable[[Params, Caller], Awaitable[JsonValue]]

MAX_BYTES: Final = 32 * 2**20
"""The largest message that is read, as the gateway's largest body."""
_MOST_IN_BATCH: Final = 1000
_AT_ONCE: Final = 16
"""How many calls of one batch are under way together."""
_NULL: Final = orjson.Fragment(b"null")


class RpcDispatcher:
    """Reads messages, calls methods, and writes what they give or why they do not.

    Args:
        methods: By name. A method gets its parameters and who calls; what it raises becomes an error with
            a code (`docs/admin.md`).
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    async def handle(self, data: bytes, caller: Caller) -> bytes | None:
        """The answer to a message, a call or a batch; ``None`` where none is due. Never raises."""
        if len(data) > MAX_BYTES:
            return too_large()
        try:
            message = loads(data)
        except JsonError as error:
            return _error_answer(_NULL, AdminError(Code.PARSE_ERROR, "Parse error", {"reason": str(error)}))
        if not isinstance(message, list):
            return await self._handle_call(message, _raw_ids(data, [message])[0], caller)
        if not message:
            return _error_answer(_NULL, _invalid("a batch holds at least one call"))
        if len(message) > _MOST_IN_BATCH:
            return _error_answer(_NULL, _invalid(f"a batch holds at most {_MOST_IN_BATCH} calls"))
        return await self._handle_batch(data, message, caller)

    async def _handle_batch(self, data: bytes, messages: list[JsonValue], caller: Caller) -> bytes | None:
        gate = asyncio.Semaphore(_AT_ONCE)
        raw_ids = _raw_ids(data, messages)

        async def one(message: JsonValue, raw_id: orjson.Fragment) -> bytes | None:
            async with gate:
                return await self._handle_call(message, raw_id, caller)

        # A group, not gather: when whoever waits for the batch leaves, so do its calls.
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one(message, raw_id))
                for message, raw_id in zip(messages, raw_ids, strict=True)
            ]
        answers = [answer for task in tasks if (answer := task.result()) is not None]
        return b"[" + b",".join(answers) + b"]" if answers else None

    async def _handle_call(self, message: JsonValue, raw_id: orjson.Fragment, caller: Caller) -> bytes | None:
        try:
            call = _parse_call(message)
        except AdminError as error:
            return _error_answer(raw_id, error)
        try:
            method = self._methods.get(call.method)
            if method is None:
                raise AdminError(Code.METHOD_NOT_FOUND, "Method not found")
            result = await method(call.params, caller)
            answer = orjson.dumps({"jsonrpc": "2.0", "result": result, "id": raw_id})
        except Exception as error:  # noqa: BLE001 - whatever it is, a caller gets an answer and no traceback
            answer = _error_answer(raw_id, error_for(error))
        return None if call.is_notification else answer


class _Call(NamedTuple):
    method: str
    params: Params
    is_notification: bool


def _parse_call(message: JsonValue) -> _Call:
    """The call that a message makes.

    Raises:
        AdminError: It makes none.
    """
    if not isinstance(message, dict):
        raise _invalid("expected an object")
    if message.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc must be "2.0"')
    if not _is_id(message.get("id")):
        raise _invalid("id must be a text, a number or null")
    method = message.get("method")
    if not isinstance(method, str):
        raise _invalid("method must be a text")
    params = message.get("params")
    if "params" in message and not isinstance(params, dict | list):
        raise _invalid("params must be an object or a list")
    return _Call(method, params if isinstance(params, dict | list) else None, "id" not in message)


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def too_large() -> bytes:
    """The answer to a message that is not read to its end."""
    reason = f"larger than {MAX_BYTES} bytes"
    return _error_answer(_NULL, AdminError(Code.PARSE_ERROR, "Parse error", {"reason": reason}))


def unknown_caller() -> bytes:
    """The answer to somebody whose token nobody has, for a transport to send with its own status."""
    message = "permission_denied: the token is missing or unknown"
    return _error_answer(_NULL, AdminError(Code.PERMISSION_DENIED, message))


def _invalid(reason: str) -> AdminError:
    return AdminError(Code.INVALID_REQUEST, "Invalid Request", {"reason": reason})


def _error_answer(raw_id: orjson.Fragment, error: AdminError) -> bytes:
    fields: dict[str, Any] = {"code": int(error.code), "message": error.message}
    if error.data is not None:
        fields["data"] = dict(error.data)
    try:
        return orjson.dumps({"jsonrpc": "2.0", "error": fields, "id": raw_id})
    except orjson.JSONEncodeError:  # something that a method put into its error
        fields = {"code": int(error.code), "message": ascii(error.message)[1:-1]}
        return orjson.dumps({"jsonrpc": "2.0", "error": fields, "id": raw_id})


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def _raw_ids(data: bytes, messages: list[JsonValue]) -> list[orjson.Fragment]:
    """Each id as it was written: an integer of thirty digits must come back as it went."""
    if any(isinstance(_id_of(message), float) for message in messages):
        again = json.loads(data, parse_float=_Number, parse_int=_Number)
        messages = again if isinstance(again, list) else [again]
    return [_id_fragment(_id_of(message)) for message in messages]


def _id_of(message: JsonValue) -> JsonValue:
    return message.get("id") if isinstance(message, dict) else None


def _id_fragment(value: JsonValue) -> orjson.Fragment:
    """An id, ready to stand in an answer; what cannot be one is null."""
    if isinstance(value, _Number):
        return orjson.Fragment(value.encode())
    return orjson.Fragment(orjson.dumps(value)) if _is_id(value) else _NULL
