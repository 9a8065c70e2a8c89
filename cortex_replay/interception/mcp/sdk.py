"""The messages of the Python SDK, whose 1.x and 2.x differ in a few things."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Sdk"]


class Sdk:
    """The SDK that a program has imported; we never import it."""

    def __init__(self) -> None:
        wrapper: Any = sys.modules["mcp.shared.message"]
        self._wrap = wrapper.SessionMessage
        kind = wrapper.JSONRPCMessage
        self.is_first = hasattr(kind, "model_validate_json")
        """Whether it is 1.x."""
        if self.is_first:
            self._parse = kind.model_validate_json
        else:
            self._parse = sys.modules["mcp_types"].jsonrpc_message_adapter.validate_json

    def message(self, frame: bytes) -> Any:
        """What a stream has for a frame: a message, or the error that it cannot be read."""
        try:
            return self._wrap(self._parse(frame) if self.is_first else self._parse(frame, by_name=False))
        except ValueError as error:
            return error

    def frame_of_client(self, message: Any) -> bytes:
        """What the SDK itself sends for a message of its client."""
        left_out = "exclude_none" if self.is_first else "exclude_unset"
        return _json(message, **{left_out: True})

    def frame_of_server(self, message: Any) -> bytes:
        """What a server sent, as far as the SDK kept it."""
        return _json(message, exclude_unset=True)


def _json(message: Any, **options: bool) -> bytes:
    text: str = message.message.model_dump_json(by_alias=True, **options)
    return text.encode()
