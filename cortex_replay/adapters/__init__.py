"""Things that answer requests."""

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.wrapper import WrapperAdapter, closing_stream

__all__ = ["LlmAdapter", "WrapperAdapter", "closing_stream"]
