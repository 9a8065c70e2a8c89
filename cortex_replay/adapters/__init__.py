"""Things that answer requests."""

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.replay import ReplayAdapter

__all__ = ["LlmAdapter", "ReplayAdapter"]
