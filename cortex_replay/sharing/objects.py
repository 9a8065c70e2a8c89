"""Whether every row has its object in the bucket. Nothing is fetched."""

from __future__ import annotations

from cortex_replay.errors import Finding
from cortex_replay.sharing.shared_store import SharedStore

__all__ = ["find_lacking"]


def find_lacking(store: SharedStore) -> list[Finding]:
    """A finding for each file whose object the bucket lacks.

    Raises:
        StoreIo: The bucket cannot be asked.
    """
    has = store.remote.has_many({row.blake3 for row in store.files})
    lacking = [row for row in store.files if row.blake3 not in has]
    here = "cortex-replay push"
    away = f"on a machine that has it in a work tree or in its cache: {here}"
    return [
        Finding(
            "not-pushed",
            row.path,
            f"has no object in {store.remote.url}",
            away if row.path in store.elsewhere else here,
        )
        for row in lacking
    ]
