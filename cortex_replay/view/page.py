"""The page itself: its HTML, and the policy that keeps it to text."""

from __future__ import annotations

import gzip
import html
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from cortex_replay.view.bundle import ENTRY, STYLES, bundle_modules, bundle_styles
from cortex_replay.view.shapes import PageDocument, Screen

__all__ = ["SERVED_POLICY", "file_page", "pack", "page_document", "served_page"]

_COMMON: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SERVED_POLICY: Final = f"{_COMMON}; script-src 'self'; style-src 'self'; connect-src 'self'"
"""As the page itself says it. A header adds ``frame-ancestors``, which a page cannot say of itself."""


def page_document(title: str, version: str, screens: list[Screen], *, is_file: bool) -> PageDocument:
    """What there is to look at, now.

    Args:
        title: Of the page.
        version: Of this package.
        screens: Those that have something to show, the first to open in front.
        is_file: Whether the page stands alone.
    """
    return {
        "title": title,
        "version": version,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "screens": screens,
        "is_file": is_file,
    }


def served_page(title: str) -> str:
    """The page of a server, which has everything else beside it."""
    return "".join(
        _html(
            title,
            SERVED_POLICY,
            "".join(f'<link rel="stylesheet" href="assets/{name}">' for name in STYLES),
            f'<script type="module" src="assets/{ENTRY}"></script>',
            is_file=False,
        )
    )


def file_page(title: str, documents: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The page as one file, in pieces.

    Args:
        title: Of the page.
        documents: By name; each is written as it comes, so that not all have to be in memory.
    """
    style, script = bundle_styles(), bundle_modules()
    policy = f"{_COMMON}; script-src {_hash(script)}; style-src {_hash(style)}"
    yield from _html(
        title,
        policy,
        f"<style>{style}</style>",
        f'<script type="module">{script}</script>',
        documents,
        is_file=True,
    )


def _html(
    title: str,
    policy: str,
    style: str,
    script: str,
    documents: Iterable[tuple[str, object]] = (),
    *,
    is_file: bool,
) -> Iterator[str]:
    mark = " data-file" if is_file else ""
    yield (
        f'<!doctype html>\n<html lang="en"{mark}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n{style}\n</head>\n<body>\n"
        '<div id="page"><noscript>This page needs JavaScript.</noscript></div>\n'
    )
    for name, document in documents:
        place = html.escape(f"data:{name}")
        yield f'<script type="application/octet-stream" id="{place}">{pack(document)}</script>\n'
    yield f"{script}\n</body>\n</html>\n"


def pack(document: object) -> str:
    """A document as text in which no tag can end: whatever was recorded, it is base64."""
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return b64encode(gzip.compress(data, mtime=0)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
