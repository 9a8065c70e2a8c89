"""Blocks of Converse and of Anthropic's Messages API, each as the other's.

A model sees the same in both, so one conversation has one key; what has no form there is
``{"type": name, name: value}``, and counts as it is.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import Block, text_block, without_nulls
from cortex_replay.wire.plans import MARKER, make_marker

__all__ = [
    "CACHE_POINT",
    "blocks_from_converse",
    "blocks_to_converse",
    "is_cache_point",
    "mark_before",
    "marked_from_converse",
]

CACHE_POINT: Final = "cachePoint"
_MEDIA_TYPES: Final = {
    "image": {name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp")},
    "document": {
        "pdf": "application/pdf",
        "csv": "text/csv",
        "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "html": "text/html",
        "txt": "text/plain",
        "md": "text/markdown",
    },
    "video": {
        "mkv": "video/x-matroska",
        "mov": "video/quicktime",
        "mp4": "video/mp4",
        "webm": "video/webm",
        "flv": "video/x-flv",
        "mpeg": "video/mpeg",
        "mpg": "video/mpg",
        "wmv": "video/x-ms-wmv",
        "three_gp": "video/3gpp",
    },
}
_PLACES: Final = {
    media_type: (kind, name) for kind, names in _MEDIA_TYPES.items() for name, media_type in names.items()
}
"""The kind of block and the format for each media type."""
_CALL: Final = frozenset(["toolUseId", "name", "input"])
_PLAIN_TEXT: Final = "text/plain"


def blocks_from_converse(value: object, where: str) -> list[Block]:
    """Blocks of Converse as those of the Messages API, without markers for a cache.

    Raises:
        InvalidRequest: It is no list of objects.
    """
    return [_from_converse(block) for block in _plain_blocks(value, where) if not is_cache_point(block)]


def marked_from_converse(value: object, where: str) -> list[Block]:
    """The same with markers: each on the block that it stands behind, as the Messages API has them."""
    plain = _plain_blocks(value, where)
    return mark_before([None if is_cache_point(block) else _from_converse(block) for block in plain], plain)


def _plain_blocks(value: object, where: str) -> list[Block]:
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise InvalidRequest(where, f"expected a list of objects, not {kind_of(value)}")
    return [without_nulls(block) for block in value]


def is_cache_point(block: Block) -> bool:
    """Whether a block is a marker, and nothing else."""
    return set(block) == {CACHE_POINT}


def mark_before(lifted: list[Block | None], given: list[Block]) -> list[Block]:
    """Blocks or tools, each with the marker that stood behind it.

    Args:
        lifted: What was sent as the Messages API has it, ``None`` for a marker.
        given: What was sent.
    """
    found: list[Block] = []
    for block, sent in zip(lifted, given, strict=True):
        if block is not None:
            found.append(block)
        elif found:  # one that nothing stands before marks nothing
            point = sent[CACHE_POINT]
            time = point.get("ttl") if isinstance(point, dict) else None
            found[-1] = found[-1] | {MARKER: make_marker("1h" if time == "1h" else "5m")}
    return found


def _from_converse(block: Block) -> Block:
    if len(block) != 1 or "type" in block:
        return {"type": "union", "union": block}
    ((name, value),) = block.items()
    lifted: Block | None = None
    match name:
        case "text" if isinstance(value, str):
            lifted = text_block(value)
        case "image" | "document" | "video" | "audio" if isinstance(value, dict):
            lifted = _lift_media(name, without_nulls(value))
        case "toolUse" if isinstance(value, dict):
            lifted = _lift_call(without_nulls(value))
        case "toolResult" if isinstance(value, dict):
            lifted = _lift_result(without_nulls(value))
        case "reasoningContent" if isinstance(value, dict):
            lifted = _lift_reasoning(without_nulls(value))
        case "searchResult" if isinstance(value, dict):
            content = value.get("content")
            inner = {"content": blocks_from_converse(content, "content")} if content is not None else {}
            lifted = {"type": "search_result", **without_nulls(value, "content"), **inner}
    return {"type": name, name: value} if lifted is None else lifted


def _lift_media(kind: str, media: Block) -> Block | None:
    form, source = media.pop("format", None), media.pop("source", None)
    if not isinstance(source, dict) or not isinstance(form, str | None) or "type" in media:
        return None
    source = without_nulls(source)
    known = "document" if kind == "video" else kind
    media_type = f"audio/{form}" if kind == "audio" else _MEDIA_TYPES[kind].get(form or "")
    if kind == "document" and isinstance(media.get("name"), str) and "title" not in media:
        media["title"] = media.pop("name")
    match source:
        case {"bytes": str(data), **others} if not others and form is not None and media_type is not None:
            if kind == "audio":
                return {"type": kind, "media_type": media_type, "data": data, **media}
            return {
                "type": known,
                "source": {"type": "base64", "media_type": media_type, "data": data},
                **media,
            }
        case {"text": str(text), **others} if not others and kind == "document":
            given = media_type or (_PLAIN_TEXT if form is None else None)
            if given is not None:
                return {"type": kind, "source": {"type": "text", "media_type": given, "data": text}, **media}
        case {"content": list(content), **others} if not others and kind == "document" and form is None:
            blocks = blocks_from_converse(content, "content")
            return {"type": kind, "source": {"type": "content", "content": blocks}, **media}
        case {"s3Location": dict(place), **others} if not others and media_type is not None:
            at: Block = without_nulls(place)
            uri = at.pop("uri", None)
            if isinstance(uri, str) and at.keys() <= {"bucketOwner"} and kind != "audio":
                source = {"type": "url", "url": uri}
                return {"type": known, "source": source, "media_type": media_type, **at, **media}
    return None


def _lift_call(call: Block) -> Block | None:
    kind = call.pop("type", "tool_use")
    if set(call) != _CALL or not isinstance(kind, str) or not kind.endswith("tool_use"):
        return None
    return {"type": kind, "id": call["toolUseId"], "name": call["name"], "input": call["input"]}


def _lift_result(result: Block) -> Block | None:
    kind = result.pop("type", "tool_result")
    call_id = result.pop("toolUseId", None)
    if not isinstance(kind, str) or not kind.endswith("_result") or not isinstance(call_id, str):
        return None
    lifted: Block = {"type": kind, "tool_use_id": call_id}
    if "content" in result:
        lifted["content"] = blocks_from_converse(result.pop("content"), "content")
    status = result.pop("status", "success")
    if status == "error":
        lifted["is_error"] = True
    elif status != "success":
        lifted["status"] = status
    return {**result, **lifted}


def _lift_reasoning(reasoning: Block) -> Block | None:
    match reasoning:
        case {"reasoningText": dict(inner), **others} if not others:
            plain = without_nulls(inner)
            if isinstance(plain.get("text"), str) and plain.keys() <= {"text", "signature"}:
                return {"type": "thinking", "thinking": plain.pop("text"), **plain}
        case {"redactedContent": str(encoded), **others} if not others:
            try:
                data = binascii.a2b_base64(encoded, strict_mode=True).decode()
            except ValueError:
                return None
            return {"type": "redacted_thinking", "data": data}
    return None


def blocks_to_converse(blocks: object, where: str) -> list[Block]:
    """The way back, with a marker behind each block that has one.

    Raises:
        InvalidRequest: Converse has no place for a block.
    """
    if isinstance(blocks, str):
        return [{"text": blocks}] if blocks else []
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise InvalidRequest(where, f"expected text or a list of blocks, not {kind_of(blocks)}")
    written: list[Block] = []
    for block in blocks:
        marker = block.get(MARKER)
        written.append(_to_converse({k: v for k, v in block.items() if k != MARKER}, where))
        if isinstance(marker, dict):
            written.append({CACHE_POINT: {"type": "default", **without_nulls(marker, "type")}})
    return written


def _to_converse(block: Block, where: str) -> Block:
    encoded = _encode_content(block, where) or _encode_tool_block(block, where)
    match block:
        case {"type": "union", "union": dict(union), **others} if encoded is None and not others:
            encoded = union
        case {"type": str(name)} if encoded is None and set(block) == {"type", name}:
            encoded = {name: block[name]}
    if encoded is None:
        raise InvalidRequest(where, f"bedrock-converse cannot carry this block of type {block.get('type')}")
    return encoded


def _encode_content(block: Block, where: str) -> Block | None:
    match block:
        case {"type": "text", "text": text, **others} if not others:
            return {"text": text}
        case {"type": "image" | "document" as kind, "source": dict(source), **others}:
            return _encode_media(source, others, kind, where)
        case {"type": "audio", "media_type": str(media_type), "data": data, **others}:
            form = media_type.removeprefix("audio/")
            return {"audio": {"format": form, "source": {"bytes": data}, **others}}
        case {"type": "thinking", "thinking": text, **others} if others.keys() <= {"signature"}:
            return {"reasoningContent": {"reasoningText": {"text": text, **others}}}
        case {"type": "redacted_thinking", "data": str(data), **others} if not others:
            return {"reasoningContent": {"redactedContent": base64.b64encode(data.encode()).decode()}}
    return None


def _encode_tool_block(block: Block, where: str) -> Block | None:
    match block:
        case {"type": str(kind), "id": call_id, "name": name, "input": given, **others} if not others:
            call = {"toolUseId": call_id, "name": name, "input": given}
            return {"toolUse": call if kind == "tool_use" else {**call, "type": kind}}
        case {"type": str(kind), "tool_use_id": call_id, **others}:
            return {"toolResult": _encode_result(kind, call_id, others, where)}
        case {"type": "search_result", **others}:
            content = others.pop("content", None)
            inner = {} if content is None else {"content": blocks_to_converse(content, where)}
            return {"searchResult": {**others, **inner}}
    return None


def _encode_media(source: Block, others: Block, kind: str, where: str) -> Block | None:
    fields = dict(others)
    match source:
        case {"type": "base64", "media_type": media_type, "data": data}:
            inner: Block = {"bytes": data}
        case {"type": "text", "media_type": media_type, "data": text}:
            inner = {"text": text}
        case {"type": "content", "content": content}:
            media_type, inner = None, {"content": blocks_to_converse(content, where)}
        case {"type": "url", "url": str(url)} if url.startswith("s3://"):
            media_type = fields.pop("media_type", None)
            owner = {"bucketOwner": fields.pop("bucketOwner")} if "bucketOwner" in fields else {}
            inner = {"s3Location": {"uri": url, **owner}}
        case _:
            reason = f"bedrock-converse takes the data of this {kind}, or its place in S3, and nothing else"
            raise InvalidRequest(where, reason)
    place: tuple[str, Any] = (kind, None) if media_type is None else _PLACES.get(str(media_type), ("", ""))
    kind, form = place
    if not kind:
        raise InvalidRequest(where, f"bedrock-converse has no format for {media_type}")
    if kind == "document" and "title" in fields:
        fields["name"] = fields.pop("title")
    return {kind: {**({} if form is None else {"format": form}), "source": inner, **fields}}


def _encode_result(kind: str, call_id: Any, others: Block, where: str) -> Block:
    fields = dict(others)
    content = blocks_to_converse(fields.pop("content", []), where)
    result: Block = {"toolUseId": call_id, "content": content}
    if fields.pop("is_error", False) is True:
        result["status"] = "error"
    if kind != "tool_result":
        result["type"] = kind
    return {**result, **fields}
