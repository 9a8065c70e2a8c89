"""Finding cassettes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cortex_replay.cassettes.documents import is_cassette
from cortex_replay.store.paths import INDEX_NAME

__all__ = ["cassettes_in"]

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def cassettes_in(path: Path) -> Iterator[Path]:
    """The file itself; or every YAML and JSON file of a folder, and whatever else begins as a cassette does.

    Hidden folders and stores are left out.
    """
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        if INDEX_NAME in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(folder, name)
            if file.suffix.lower() in _SUFFIXES or (file.is_file() and is_cassette(file)):
                yield file
