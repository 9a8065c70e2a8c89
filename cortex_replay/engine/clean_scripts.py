"""What was answered to an MCP call, without secrets.

Bytes stand there as base64. A secret cannot be cut out of base64: what is left would be none, and a client
would choke on it. So they are set apart. What is text is decoded, redacted and encoded again; other bytes
stay; what stages them looks into them (:func:`read_script`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.blobs import change_blobs, decode_blob
from cortex_replay.redact.binary import readings_of
from cortex_replay.redact.redactor import Redactor

__all__ = ["clean_script", "read_script"]

Wire = dict[str, JsonValue]


def clean_script(wire: Wire, redactor: Redactor) -> Wire:
    """A script without secrets, but for those that stand in bytes that are no text.

    The very same one where there are no bytes, and the redactor has found nothing in all the rest.
    """
    held: list[str | None] = []

    def set_apart(encoded: str) -> str:
        data = decode_blob(encoded)
        held.append(None if not data else _clean_blob(encoded, data, redactor))
        return encoded if not data else ""

    apart = {**wire, "messages": change_blobs(wire["messages"], set_apart)}
    document = apart if held else wire
    clean, _ = redactor.document(document)
    if not held:
        return clean if isinstance(clean, dict) else {}
    back: Iterator[str | None] = iter(held)

    def put_back(left: str) -> str:
        kept = next(back)
        return left if kept is None else kept

    assert isinstance(clean, dict)  # noqa: S101 - as it was
    return {**clean, "messages": change_blobs(clean["messages"], put_back)}


def _clean_blob(encoded: str, data: bytes, redactor: Redactor) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return encoded
    clean, hits = redactor.document(text)
    return base64.b64encode(str(clean).encode()).decode() if hits else encoded


def read_script(wire: Wire) -> Wire:
    """A script as a search for secrets reads it: its bytes each, and all in a row. The very
    same one where it has none."""
    found: list[bytes] = []

    def take_out(encoded: str) -> str:
        data = decode_blob(encoded)
        if data:
            found.append(data)
        return "" if data else encoded

    messages = change_blobs(wire["messages"], take_out)
    if not found:
        return wire
    read: list[JsonValue] = [{**readings_of(data)} for data in found]
    read += [{**readings_of(b"".join(found))}] if len(found) > 1 else []
    return {**wire, "messages": messages, "blobs, read as bytes": read}
