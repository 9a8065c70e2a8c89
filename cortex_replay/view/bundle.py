"""The page's modules as one script, and its styles as one, for a file that stands alone."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

__all__ = ["ENTRY", "MODULES", "STYLES", "asset", "bundle_modules", "bundle_styles"]

ENTRY: Final = "app.js"
MODULES: Final = (
    "dom.js",
    "figures.js",
    "source.js",
    "theme.js",
    "keys.js",
    "list.js",
    "tables.js",
    "search.js",
    "store.js",
    "sweep.js",
    "report.js",
    "words.js",
    "sides.js",
    "change_item.js",
    "change.js",
    "screens.js",
    ENTRY,
)
"""In the order in which they can be run: a module stands behind what it imports."""
STYLES: Final = ("page.css", "store.css", "change.css", "report.css")
_IMPORT: Final = re.compile(r"^import\b[^;]*;\n?", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=async |function |const |class )", re.MULTILINE)


def asset(name: str) -> str:
    """One file of the page, as it ships."""
    return (files("cortex_replay.view") / "assets" / name).read_text(encoding="utf-8")


def bundle_modules() -> str:
    """All modules as one. Each top-level name is unique among them; a test sees to it."""
    texts = (_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in MODULES)
    return "\n".join(texts)


def bundle_styles() -> str:
    """All styles as one."""
    return "\n".join(map(asset, STYLES))
