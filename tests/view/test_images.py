"""The screenshots of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 150_000
MOST_BYTES_OF_ALL = 1_000_000


def test_every_screenshot_is_small_and_has_a_place_with_words() -> None:
    text = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("view.md", "review.md"))
    shown = {found[1]: found[0] for found in re.findall(r"!\[([^\]]*)\]\(images/([\w-]+\.png)\)", text)}
    sizes = {file.name: file.stat().st_size for file in (DOCS / "images").glob("view-*.png")}

    assert sizes.keys() == shown.keys()
    assert min(map(len, shown.values())) > 20
    assert max(sizes.values()) < MOST_BYTES
    assert sum(sizes.values()) < MOST_BYTES_OF_ALL
