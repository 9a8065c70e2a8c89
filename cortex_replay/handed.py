"""What the package's root hands to lower layers, which must not import it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["wire_decoder"]

wire_decoder: Callable[..., Any] | None = None
"""Reads the bytes of a recorded answer; the store checks what they say, and knows no codec."""
