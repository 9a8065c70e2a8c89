"""Things that answer requests."""

from cortex_replay.adapters.base import LlmAdapter

__all__ = ["LlmAdapter"]
