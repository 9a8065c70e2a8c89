"""The ways in which one value is written.

A *form* is a way of writing that a text calls for: escaped in JSON, in a URL, as the name of a folder. Within
a form there may be several *spellings* that programs choose between: a path through a link or without,
``1/5`` or ``01/05``. Where they fall together nothing tells them apart, so a recording names them in the
order in which a conversation first has them: the first has the form's own name, the others ``alt``, ``alt2``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

__all__ = ["ALT", "NAME_FORM", "form_of", "forms_of", "main_form", "names_of", "spell", "token_of"]

ALT: Final = "alt"
NAME_FORM: Final = "name"
"""The last part of a path, as programs name what they keep of a project."""

_ALT_END: Final = re.compile(rf"{ALT}[0-9]*\Z")
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]")
_NO_LETTER_RUN: Final = re.compile(r"[^a-z0-9]+")
_OPEN_IN_URLS: Final = "/~!*'();:@&=+$,"
"""What JavaScript's ``encodeURI`` leaves as it is, and Python's ``quote`` does not."""


def form_of(main: str, number: int) -> str:
    """The name of the spelling that is met as the one with this number, from 0."""
    return main if number == 0 else f"{main}{ALT}{number if number > 1 else ''}"


def main_form(form: str) -> str:
    """The form that a spelling is one of."""
    return _ALT_END.sub("", form)


def token_of(name: str, form: str) -> str:
    return f"{name}:{form}" if form else name


def spell(main: str, texts: Iterable[str]) -> dict[str, str]:
    """Spellings by name, the usual one first."""
    return {form_of(main, number): text for number, text in enumerate(dict.fromkeys(texts))}


def forms_of(texts: Sequence[str]) -> Mapping[str, str]:
    """A value, given in its plain spellings, in every form.

    Also a form that is the same as the plain one here: a recording from elsewhere may name it.
    """
    found = spell("", texts)
    for form, writers in _FORMS.items():
        found |= spell(form, [write(text) for write in writers for text in texts])
    return found


def names_of(folders: Iterable[str]) -> dict[str, str]:
    """What a folder is called, also as the small slug that some programs make of it."""
    names = [folder.rpartition("/")[2] for folder in folders]
    slugs = [_NO_LETTER_RUN.sub("-", name.lower()).strip("-") for name in names]
    return spell(NAME_FORM, filter(None, names + slugs))


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


_FORMS: Final[Mapping[str, tuple[Callable[[str], str], ...]]] = {
    "json": (_json,),
    "json2": (lambda text: _json(_json(text)),),
    "ascii": (_ascii,),
    "ascii2": (lambda text: _json(_ascii(text)),),
    "url": (lambda text: quote(text, safe=_OPEN_IN_URLS), lambda text: quote(text, safe="/")),
    "query": (lambda text: quote(text, safe=""),),
    "slug": (lambda text: _NO_LETTER.sub("-", text),),
}
"""The last one is how agents name a folder after a path: ``-srv-me-work``."""
