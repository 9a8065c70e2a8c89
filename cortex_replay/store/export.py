"""A copy of a store in the layout of ``crtx-llm``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from cortex_replay.disk import Folder
from cortex_replay.errors import StoreIo
from cortex_replay.store.changes import fixture_path
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.store import Store
from cortex_replay.store.trust import Layout

__all__ = ["ExportSummary", "export_crtx"]


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was written, and what ``crtx-llm`` will not see of it."""

    fixtures: int
    with_more_answers: int
    """Fixtures of which it gives the first answer only."""


def export_crtx(store: Store, target: Path) -> ExportSummary:
    """Write every fixture into a new flat folder, with an index of paths and hashes.

    The files are copied byte for byte; ``crtx-llm`` ignores the fields it does not know.

    Raises:
        StoreIo: The folder exists and is not empty, or the disk refuses.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreIo(f"{target} exists already; export writes into a new or an empty folder")
    if target.resolve().is_relative_to(store.root / ("fixtures" if store.layout is Layout.NESTED else ".")):
        raise StoreIo(f"{target} is inside the store itself, which would then have unlisted files")
    was_there = target.exists()
    try:
        with Folder.reach(target, make=True) as folder:
            return _write(store, folder)
    except OSError as error:
        if not was_there:
            with suppress(OSError), Folder.reach(target.absolute().parent) as above:
                above.remove_folder(target.name)
        raise StoreIo(f"the export cannot be written: {error.strerror or error} ({target})") from error


def _write(store: Store, folder: Folder) -> ExportSummary:
    blocks: list[str] = []
    several = 0
    written: list[str] = []
    try:
        for item in store.list():
            key = FixtureKey(item.model, item.prompt_hash)
            name = fixture_path(Layout.FLAT, key, item.blake3)
            folder.create(name, store.content(*key))
            written.append(name)
            rows = tomli_w.dumps({"path": name, "blake3": item.blake3})
            blocks.append(f"[[fixture]]\n{rows}")
            several += len(store.get(*key).answers) > 1
        # Last: a folder without an index is refused, so half an export is never taken for a whole one.
        folder.create(INDEX_NAME, "\n".join(blocks).encode())
    except OSError:
        with suppress(OSError):
            for name in written:
                folder.unlink(name)
        raise
    return ExportSummary(len(blocks), several)
