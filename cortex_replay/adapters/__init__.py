"""Things that answer requests."""

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.adapters.wrapper import WrapperAdapter, closing_stream

__all__ = ["LlmAdapter", "RequestRate", "WrapperAdapter", "closing_stream"]
