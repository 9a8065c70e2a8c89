"""One run: what it asks, where it records, and what a command behind it finds in its environment."""

from cortex_replay.run.run import Run

__all__ = ["Run"]
