"""A comment, read by a Markdown parser that others wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from cortex_replay.cli.change_markdown import markdown_of
from integration.install import BENCH, completed, once
from tests.cli.test_change_markdown import HOSTILE, change_of

_VERSION: Final = "4.3.0"


@pytest.fixture(scope="module")
def parser() -> Iterator[Any]:
    """CommonMark with HTML, and with the tables and strokes of GitHub."""

    def fill(folder: Path) -> None:
        command: list[str | Path] = [sys.executable, "-m", "pip", "install", "-q", "--target", folder]
        completed([*command, f"markdown-it-py=={_VERSION}"])

    folder = once(BENCH / f"markdown-it-{_VERSION}", fill)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        made = import_module("markdown_it").MarkdownIt("commonmark", {"html": True})
        yield made.enable(["table", "strikethrough"])


def structure(parser: Any, text: str) -> list[tuple[str, str]]:
    """What a comment consists of, without what stands in code."""
    found: list[tuple[str, str]] = []
    for token in parser.parse(text):
        for part in token.children or [token]:
            is_code = part.type in ("code_inline", "fence")
            found.append((part.type, part.info if is_code else part.content))
    return found


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.strip()])
def test_a_recording_is_code_to_a_parser(parser: Any, text: str) -> None:
    plain = structure(parser, markdown_of(change_of("text"), everything=True))

    assert structure(parser, markdown_of(change_of(text), everything=True)) == plain
    assert {kind for kind, _ in plain} >= {"code_inline", "fence", "html_block", "list_item_open"}


def test_the_check_sees_what_breaks_out(parser: Any) -> None:
    assert structure(parser, "- `a`") == structure(parser, "- `b`")
    assert structure(parser, "- `a`") != structure(parser, "- `a` [b](c) `d`")
    assert structure(parser, "```\na\n```") != structure(parser, "```\na\n```\n@b")
