"""Recording: any adapter, wrapped."""

from cortex_replay.recorder.adapter import Mode, RecordingAdapter

__all__ = ["Mode", "RecordingAdapter"]
