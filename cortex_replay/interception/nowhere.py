"""Connections that lead nowhere."""

from __future__ import annotations

__all__ = ["Nowhere"]


class Nowhere:
    """A connection that was given to a library, and that nothing leaves by: the guard need not look."""
