"""Images, documents and sound as OpenAI's two wires write them: as URLs that hold the data."""

from __future__ import annotations

import re
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.body import Block

__all__ = ["check_fields", "encode_audio", "encode_url", "lift_audio", "lift_file_data", "lift_url"]

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


def lift_url(url: str) -> Block:
    """The fields of a part for a URL: the data where the URL holds it."""
    match = _DATA_URL.match(url)
    return {"url": url} if match is None else {"media_type": match[1], "data": url[match.end() :]}


def lift_file_data(data: object) -> Block:
    """The fields of a part for a file's data: a data URL, or something that only its server knows."""
    if not isinstance(data, str):
        return {}
    lifted = lift_url(data)
    return {"file_data": data} if "url" in lifted else lifted


def encode_url(part: Block, where: str) -> str | None:
    """The URL for a part's data or URL; the way back of :func:`lift_url`."""
    if isinstance(part.get("data"), str):
        if not isinstance(part.get("media_type"), str):
            raise InvalidRequest(where, f"this wire needs the media_type of the {part.get('type')}")
        return f"data:{part['media_type']};base64,{part['data']}"
    url = part.get("url")
    return url if isinstance(url, str) else None


def lift_audio(inner: object) -> Block | None:
    """The part for ``input_audio``."""
    match inner:
        case {"data": str(data), "format": str(form), **others} if not others:
            return {"type": "audio", "media_type": f"audio/{form}", "data": data}
    return None


def encode_audio(part: Block) -> Block:
    """The inverse of :func:`lift_audio`."""
    return {"data": part.get("data"), "format": str(part.get("media_type")).removeprefix("audio/")}


def check_fields(part: dict[str, Any], *names: str, where: str) -> None:
    """Refuse a part with fields that its wire has no place for."""
    for name in part:
        if name not in names and name != "type":
            reason = f"this wire cannot carry `{name}` of a block of type {part.get('type')}"
            raise InvalidRequest(where, reason)
