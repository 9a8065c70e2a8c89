"""The sources of the page: what they must not do, and colours that people can read."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import product

import pytest

from cortex_replay.view.bundle import STYLES, asset, modules

MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|createContextualFragment|DOMParser|\.srcdoc"
    r"|\beval\b|\bFunction\(|\bsetTimeout\(\s*[\"'`]|javascript:|createPolicy"
)
"""Ways from a text to markup or to code."""
REQUEST = re.compile(r"https?:|\bwss?:|\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\(")
"""Ways out. ``source.js`` alone asks, and only for its documents."""
ELEMENT = re.compile(
    r"createElement|cloneNode|\.setAttribute\(\s*[\"'](?:style|src|href|on)|\.(?:href|src) = "
)
"""``dom.js`` alone makes elements, and looks at where a link leads."""
STYLE = re.compile(
    r"\.style\b(?!\.(?:height|width|transform) = `[^`$]*\$\{[^`]*\}(?:px|%)\)?`)|cssText|\.setProperty\("
)
"""Sizes and places that the page has computed are the only styles that a script sets."""
COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")


@pytest.mark.parametrize("module", modules())
def test_a_module_has_no_way_from_text_to_markup_and_none_out(module: str) -> None:
    source = asset(module)

    assert MARKUP.findall(source) == []
    assert REQUEST.findall(source) == (["fetch("] if module == "source.js" else [])
    assert ELEMENT.findall(source) == (["createElement"] if module == "dom.js" else [])
    assert STYLE.findall(source) == []


@pytest.mark.parametrize("style", STYLES)
def test_a_style_loads_nothing(style: str) -> None:
    assert re.findall(r"@import|url\(|image-set|https?:|expression", asset(style)) == []


def test_every_asset_is_part_of_the_page() -> None:
    names = {path.name for path in (files("cortex_replay.view") / "assets").iterdir()}

    assert names == {*modules(), *STYLES}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_stands_out_from_what_is_behind_it_in_both_themes() -> None:
    """WCAG 2 AA: 4.5 for text, 3 for the edges of fields."""
    pairs = {name: (light, dark) for name, light, dark in COLOUR.findall(asset("page.css"))}
    wanted = [
        *product(("ink", "muted", "accent", "good", "warn", "bad"), ("paper", "raised", "sunken"), (4.5,)),
        *((name, f"{name}-soft", 4.5) for name in ("accent", "good", "warn", "bad")),
        *product(("ink",), ("mark", "accent-soft", "good-soft", "warn-soft", "bad-soft"), (4.5,)),
        ("muted", "accent-soft", 4.5),
        *product(("edge",), ("paper", "raised", "sunken"), (3,)),
    ]
    weak = [
        (text, behind, theme)
        for text, behind, least in wanted
        for theme, at in (("light", 0), ("dark", 1))
        if contrast(pairs[text][at], pairs[behind][at]) < least
    ]

    assert weak == []
