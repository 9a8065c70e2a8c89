"""A recorded file as it is stored."""

from __future__ import annotations

from cortex_replay.view.recordings import Recordings
from cortex_replay.view.shapes import RawDocument

__all__ = ["raw_document"]


def raw_document(recordings: Recordings, file_id: str) -> RawDocument | None:
    """The whole of a file, if it is the one that the index vouches for; ``None`` if there is none.

    Raises:
        FixtureIntegrityFailed: It has changed since.
    """
    file = recordings.files.get(file_id)
    if file is None:
        return None
    data = recordings.store.listed_content(file)
    text = data.decode(errors="replace")  # what was trusted is UTF-8
    shown = recordings.redact(text)
    return {
        "id": file.id,
        "path": recordings.redact(file.path),
        "bytes": len(data),
        "text": shown,
        "is_redacted": shown != text,
    }
