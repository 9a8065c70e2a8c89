"""What a provider says itself about a prompt that it did not find in its cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import ResponseParse
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.wire.recording import body_of

__all__ = ["cache_miss_reason"]

_NAME: Final = b"cache_miss_reason"
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PROTOCOLS: Final = ("anthropic-messages", "bedrock-anthropic")


def cache_miss_reason(wire: Mapping[str, JsonValue]) -> str | None:
    """Anthropic's reason for a miss, such as ``tools_changed``, where a client asked for it.

    Args:
        wire: A recorded answer; a stream may say it in its first event or in a later one.
    """
    if wire.get("protocol") not in _PROTOCOLS:
        return None
    try:
        body = body_of(wire)
    except ResponseParse:
        return None
    if _NAME not in body:
        return None
    found = None
    for document in _documents(body, is_stream=wire.get("stream") is True):
        for holder in (document, document.get("message"), document.get("delta")):
            match holder:
                case {"diagnostics": {"cache_miss_reason": {"type": str(reason)}}} if _WORD.fullmatch(reason):
                    found = reason
    return found


def _documents(body: bytes, *, is_stream: bool) -> Iterator[dict[str, Any]]:
    """The documents that may hold a reason. Events are lines here, and few do."""
    lines = [line.partition(b":")[2] for line in body.splitlines() if _NAME in line] if is_stream else [body]
    for line in lines:
        try:
            document = loads(line)
        except JsonError:
            continue
        if isinstance(document, dict):
            yield document
