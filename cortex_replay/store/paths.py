"""Which paths an index may name. The one guard between a row and the file system."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from cortex_replay.printable import UNPRINTABLE

__all__ = [
    "EXCHANGES_FOLDER",
    "INDEX_NAME",
    "MAX_INDEX_BYTES",
    "NESTED_FOLDER",
    "PARTS_FOLDER",
    "SHARDS_FOLDER",
    "UNPRINTABLE",
    "are_plain_paths",
    "escape",
    "fold_path",
    "is_fixture_name",
    "path_problem",
]

INDEX_NAME: Final = "INDEX.toml"
MAX_INDEX_BYTES: Final = 32 * 2**20
"""Of the index, and of a shard of it."""
NESTED_FOLDER: Final = "fixtures"
EXCHANGES_FOLDER: Final = "exchanges"
"""Below the layout's folder, where exchanges stand."""
SHARDS_FOLDER: Final = "index"
"""Where the shards of an index stand, if it has any."""
PARTS_FOLDER: Final = "parts"
"""Below the layout's folder, where parts of requests stand."""

# Control characters but the line feed, backslash, colon, DEL.
_NEVER_PLAIN: Final = bytes([*range(0x0A), *range(0x0B, 0x20), 0x3A, 0x5C, 0x7F])


def path_problem(path: str) -> str | None:
    """Why ``path`` must not stand in an index, or ``None`` when it may.

    An absolute path has an empty first component. A backslash or a colon is harmless here but
    names another file (a folder, a drive, a stream) on Windows, and a fixture set must mean the
    same everywhere.
    """
    if UNPRINTABLE.search(path):
        return "holds a character that cannot be printed"
    if "\\" in path or ":" in path:
        return "holds a backslash or a colon"
    if path and "//" not in path and "/." not in path and path[0] not in "./" and path[-1] != "/":
        return None  # as nearly all are
    for component in path.split("/"):
        if component == "":
            return "is absolute, or has an empty component"
        if component in (".", ".."):
            return f"has the component {component!r}"
    return None


def are_plain_paths(paths: Sequence[str]) -> bool:
    """Whether all paths are plainly harmless and differ by more than letter case.

    ``False`` says nothing: then :func:`path_problem` and :func:`fold_path` decide one by one.
    """
    joined = "\n".join(paths)
    if not joined.isascii() or joined.count("\n") != len(paths) - 1:
        return False
    data = joined.encode()
    components = f"\n{joined}\n".replace("/", "\n")
    return (
        len(data.translate(None, _NEVER_PLAIN)) == len(data)
        and "\n\n" not in components  # an empty one
        and "\n." not in components  # `.`, `..`, or one that merely starts with a dot
        and len(set(paths if joined == (lower := joined.lower()) else lower.split("\n"))) == len(paths)
    )


def fold_path(path: str) -> str:
    """The form under which two paths are the same file on some file system."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def is_fixture_name(name: str) -> bool:
    """Whether a file of this name must be listed."""
    return name.endswith(".json") or name[-5:].lower() == ".json"


def escape(path: str) -> str:
    """A path as it may be printed: what is not text is escaped."""
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), path)
