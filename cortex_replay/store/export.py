"""A copy of a store in the layout of ``crtx-llm``."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from cortex_replay.errors import StoreIo
from cortex_replay.store import durable
from cortex_replay.store.changes import fixture_path
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.store import Store
from cortex_replay.store.trusted import Layout

__all__ = ["Exported", "export_crtx"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and what ``crtx-llm`` will not see of it."""

    fixtures: int
    with_more_answers: int
    """Fixtures of which it gives the first answer only."""


def export_crtx(store: Store, target: Path) -> Exported:
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
    blocks: list[str] = []
    several = 0
    try:
        target.mkdir(parents=True, exist_ok=True)
        for item in store.list():
            key = FixtureKey(item.model, item.prompt_hash)
            name = fixture_path(Layout.FLAT, key, item.blake3)
            durable.create(target / name, store.content(*key))
            rows = tomli_w.dumps({"path": name, "blake3": item.blake3})
            blocks.append(f"[[fixture]]\n{rows}")
            several += len(store.get(*key).answers) > 1
        # Last: a folder without an index is refused, so half an export is never taken for a whole one.
        durable.create(target / INDEX_NAME, "\n".join(blocks).encode())
    except OSError as error:
        with suppress(OSError):
            for path in target.iterdir():
                path.unlink()
            if not was_there:
                shutil.rmtree(target)
        raise StoreIo(f"the export cannot be written: {error.strerror or error}") from error
    return Exported(len(blocks), several)
