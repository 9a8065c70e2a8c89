"""What every screen has."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

__all__ = ["PageDocument", "Screen", "Spent"]


Screen = Literal["store", "conversation", "change", "run"]


class PageDocument(TypedDict):
    """``page``: what there is to look at. The page reads it first."""

    title: str
    version: str
    made_at: str
    """When, as ISO 8601."""
    screens: list[Screen]
    """Those that have something to show, the first to open in front."""
    is_file: bool


class Spent(TypedDict):
    """Tokens, and money where prices are known."""

    prompt: int
    completion: int
    cached: int
    cache_write: int
    money: NotRequired[str]
    """Formatted with its currency."""
