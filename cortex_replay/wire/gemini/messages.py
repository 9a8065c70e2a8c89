"""The contents of a conversation, as messages.

A call of a function often has no id here, and its result then answers the first open call of its function.
Every call gets one when it is lifted, as calls have on other wires.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRole, ToolCall
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import (
    Block,
    content_and_parts,
    fields_part,
    lift_message_list,
    text_block,
    verbatim_message,
)
from cortex_replay.wire.gemini.spelling import plain_base64

__all__ = ["PART_FIELDS", "lift_contents"]

PART_FIELDS: Final = frozenset(["videoMetadata", "mediaResolution", "partMetadata"])
"""What a part may say about what it holds."""
_SIGNATURE: Final = "thoughtSignature"
_CALL: Final = "functionCall"
_RESULT: Final = "functionResponse"


def lift_contents(contents: object) -> list[LlmMessage]:
    """Every message of a conversation.

    Raises:
        InvalidRequest: It is not a list of objects, or one of them cannot be read.
    """
    if not isinstance(contents, list):
        raise InvalidRequest("contents", f"expected a list, not {kind_of(contents)}")
    return lift_message_list(contents, "contents", _MessageLift(contents))


class _MessageLift:
    """Lifts contents in order, to know which call a result is for."""

    def __init__(self, contents: list[Any]) -> None:
        self._ids = _given_ids(contents)
        self._names: dict[str, str] = {}
        """The function of each call so far."""
        self._open: list[str] = []
        """The calls without an id of their own that have no result yet."""

    def __call__(self, content: Block) -> Iterator[LlmMessage]:
        role, parts = content.get("role", "user"), content.get("parts", [])
        fields = fields_part(content, "role", "parts")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise InvalidRequest("parts", f"expected a list of objects, not {kind_of(parts)}")
        if role == "model":
            yield self._lift_answer(parts, fields)
        elif role == "user" or (role in ("function", "tool") and all(map(_is_result, parts))):
            yield from self._lift_turn(parts, fields)
        else:
            yield verbatim_message(content)

    def _lift_turn(self, parts: list[Block], fields: tuple[Block, ...]) -> Iterator[LlmMessage]:
        """What the user says, and results, in their order; each result is a message."""
        said: list[Block] = []
        has_results = False
        for part in parts:
            if not _is_result(part):
                said += _lift_part(part)
                continue
            has_results = True
            if said:
                yield _user_message(said)
                said = []
            yield self._lift_result(part[_RESULT])
        if said or fields or not has_results:
            yield _user_message(said, fields)

    def _lift_result(self, result: Block) -> LlmMessage:
        known = ["id", "name", "response", "parts"]
        call_id = self._answered_call(result.get("id"), result["name"])
        if call_id is None or self._names.get(call_id) != result["name"]:
            known.remove("name")  # nothing else says it
        blocks, is_error = _lift_response(result.get("response", {}))
        for part in result.get("parts", []):
            blocks += _lift_part(part)
        text, parts = content_and_parts(blocks)
        parts = (*parts, *fields_part(result, *known))
        return LlmMessage(LlmRole.TOOL, text, parts=parts, tool_call_id=call_id, is_error=is_error)

    def _answered_call(self, given: str | None, name: str) -> str | None:
        if given is not None and given in self._names:
            return given
        found = next((call_id for call_id in self._open if self._names[call_id] == name), None)
        if found is not None:
            self._open.remove(found)
        return found or given

    def _lift_answer(self, parts: list[Block], fields: tuple[Block, ...]) -> LlmMessage:
        """Thinking, text and calls in this order are what they are on other wires; anything else is kept in
        the order that it has."""
        blocks = [block for part in parts for block in self._lift_answer_part(part)]
        ranks = [_rank(block) for block in blocks]
        if None in ranks or ranks != sorted(ranks, key=lambda rank: rank or 0):
            text, _ = content_and_parts(blocks)
            return LlmMessage(LlmRole.ASSISTANT, text, parts=(*blocks, *fields))
        thinking = [block for block in blocks if _rank(block) == 1]
        text, said = content_and_parts([block for block in blocks if _rank(block) == 2])
        calls = [
            ToolCall(id=block["id"], name=block["name"], arguments=block["input"])
            for block in blocks
            if _rank(block) == 3
        ]
        return LlmMessage(LlmRole.ASSISTANT, text, parts=(*thinking, *said, *fields), tool_calls=calls)

    def _lift_answer_part(self, part: Block) -> list[Block]:
        if not _is_call(part):
            return _lift_part(part)
        call = part[_CALL]
        block = {"type": "tool_use", "id": self._id_of(call), "name": call["name"]}
        return [block | {"input": call.get("args", {})}]

    def _id_of(self, call: Block) -> str:
        call_id: str = call.get("id", "")
        if not call_id:
            number = len(self._names) + 1
            while (call_id := f"call_{number}") in self._ids:
                number += 1
            self._ids.add(call_id)
            self._open.append(call_id)
        self._names[call_id] = call["name"]
        return call_id


def _given_ids(contents: list[Any]) -> set[str]:
    """The ids that a conversation has already."""
    parts = (
        part
        for content in contents
        if isinstance(content, dict) and isinstance(content.get("parts"), list)
        for part in content["parts"]
        if isinstance(part, dict)
    )
    named = (part.get(kind) for part in parts for kind in (_CALL, _RESULT))
    return {one["id"] for one in named if isinstance(one, dict) and isinstance(one.get("id"), str)}


def _is_call(part: Block) -> bool:
    """Whether a part is a plain call of a function. Its signature is for the provider alone."""
    call = part.get(_CALL)
    return (
        isinstance(call, dict)
        and set(part) <= {_CALL, _SIGNATURE}
        and set(call) <= {"id", "name", "args"}
        and isinstance(call.get("name"), str)
        and isinstance(call.get("id", ""), str)
    )


def _is_result(part: Block) -> bool:
    result = part.get(_RESULT)
    if not isinstance(result, dict) or not set(part) <= {_RESULT, _SIGNATURE}:
        return False
    parts = result.get("parts", [])
    return (
        isinstance(result.get("name"), str)
        and isinstance(result.get("id", ""), str)
        and isinstance(result.get("response", {}), dict)
        and isinstance(parts, list)
        and all(isinstance(part, dict) for part in parts)
    )


def _user_message(blocks: list[Block], fields: tuple[Block, ...] = ()) -> LlmMessage:
    text, parts = content_and_parts(blocks)
    return LlmMessage(LlmRole.USER, text, parts=(*parts, *fields))


def _lift_response(response: Block) -> tuple[list[Block], bool]:
    """What a function gave, and whether it failed. A text under the name that the API has for it is the text
    of other wires; everything else is kept as the value that it is."""
    match response:
        case {"output": str(text), **others} if not others:
            return [text_block(text)], False
        case {"error": str(text), **others} if not others:
            return [text_block(text)], True
    return [{"type": "function_response", "response": response}], False


def _lift_part(part: Block) -> list[Block]:
    """The block for a part; none for one that carries a signature and nothing else."""
    plain = dict(part)
    signature = plain.pop(_SIGNATURE, None)
    if plain.get("thought") is False:
        del plain["thought"]
    kinds = set(plain) - PART_FIELDS
    about = {name: plain[name] for name in PART_FIELDS if name in plain}
    if signature is not None and plain in ({}, {"text": ""}):
        return []
    if kinds == {"text"} and isinstance(plain["text"], str):
        return [text_block(plain["text"]) | about]
    if plain.get("thought") is True and set(plain) == {"thought", "text"} and isinstance(plain["text"], str):
        thinking: Block = {"type": "thinking", "thinking": plain["text"]}
        return [thinking if signature is None else thinking | {"signature": signature}]
    if kinds in ({"inlineData"}, {"fileData"}) and (media := _lift_media(plain)) is not None:
        return [media | about]
    return [{"type": "part", "part": plain}]


def _lift_media(part: Block) -> Block | None:
    match part:
        case {"inlineData": {"mimeType": str(media_type), "data": str(data), **others}}:
            fields: Block = {"media_type": media_type, "data": plain_base64(data)}
        case {"fileData": {"mimeType": str(media_type), "fileUri": str(url), **others}}:
            fields = {"media_type": media_type, "url": url}
        case {"fileData": {"fileUri": str(url), **others}}:
            media_type, fields = "", {"url": url}
        case _:
            return None
    about: Block = {str(name): value for name, value in others.items()}
    if not set(about) <= {"displayName"}:
        return None
    kind = media_type.partition("/")[0]
    return {"type": kind if kind in ("image", "audio") else "document", **fields, **about}


def _rank(block: Block) -> int | None:
    """Where a block stands in the order thinking, text, calls; ``None`` for any other."""
    return {"thinking": 1, "text": 2, "tool_use": 3}.get(block["type"])
