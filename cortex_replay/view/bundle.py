"""The page's modules as one script, and its styles as one, for a file that stands alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

__all__ = ["ENTRY", "STYLES", "asset", "bundle_modules", "bundle_styles", "modules"]

ENTRY: Final = "app.js"
STYLES: Final = ("page.css", "store.css", "conversation.css", "change.css", "report.css")
_IMPORT: Final = re.compile(r'^import (\{[^}]*\}) from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)


def asset(name: str) -> str:
    """One file of the page, as it ships."""
    return (files("cortex_replay.view") / "assets" / name).read_text(encoding="utf-8")


def modules(name: str = ENTRY) -> list[str]:
    """A module and all that it needs, in the order in which they can be run."""
    return list(dict.fromkeys(_needs(name, ())))


def _needs(name: str, importers: tuple[str, ...]) -> Iterator[str]:
    if name in importers:
        raise ValueError(f"modules import each other: {' → '.join((*importers, name))}")
    for _, needed in _IMPORT.findall(asset(name)):
        yield from _needs(needed, (*importers, name))
    yield name


def bundle_modules() -> str:
    """All modules as one script. Each keeps its own scope, and hands out what it exports."""
    return "\n".join(map(_as_function, modules()))


def _as_function(name: str) -> str:
    text = _IMPORT.sub(
        lambda found: f"const {found[1].replace(' as ', ': ')} = {_scope(found[2])};\n", asset(name)
    )
    exports = ", ".join(found for _, found in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1", text)
    return f"const {_scope(name)} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


def _scope(module: str) -> str:
    return f"module_{module.removesuffix('.js')}"


def bundle_styles() -> str:
    """All styles as one."""
    return "\n".join(map(asset, STYLES))
