"""The ways in which one value is written.

A *form* is a way of writing that a text calls for: escaped in JSON, in a URL, as the name of a folder. Within
a form there may be several *spellings* that programs choose between: a path through a link or without,
``1/5`` or ``01/05``. On some machines and days they fall together, and then nothing tells them apart. So in
a request they are named in the order in which it has them: the first has the name of the form, the others
``alt``, ``alt2``. Each also has a name of its own, ``s0``, ``s1``, for an answer with one that its request
lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

__all__ = ["NAME_FORM", "form_of", "forms_of", "main_form", "names_of", "own_form", "spell", "token_of"]

_ALT: Final = "alt"
NAME_FORM: Final = "name"
"""The last part of a path, as programs name what they keep of a project."""

_OWN_END: Final = re.compile(rf"(?:{_ALT}[0-9]*|s[0-9]+)\Z")
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]")
_NO_LETTER_RUN: Final = re.compile(r"[^a-z0-9]+")
_OPEN_IN_URLS: Final = "/~!*'();:@&=+$,"
"""What JavaScript's ``encodeURI`` leaves as it is, and Python's ``quote`` does not."""


def form_of(main: str, number: int) -> str:
    """The name of the spelling that a request has as the one with this number, from 0."""
    return main if number == 0 else f"{main}{_ALT}{number if number > 1 else ''}"


def main_form(form: str) -> str:
    """The form that a spelling is one of."""
    return _OWN_END.sub("", form)


def own_form(main: str, form: str) -> str:
    """The name of its own that a spelling has, which may be the usual one of its form."""
    return f"{main}s0" if form == main else form


def token_of(name: str, form: str) -> str:
    return f"{name}:{form}" if form else name


def spell(main: str, texts: Sequence[str]) -> dict[str, str]:
    """The spellings of a form by name, the usual one first."""
    if len(texts) == 1:
        return {main: texts[0]}
    return {main: texts[0], **{f"{main}s{number}": text for number, text in enumerate(texts)}}


def forms_of(texts: Sequence[str]) -> Mapping[str, str]:
    """A value, given in its plain spellings, in every form.

    Also a form that is the same as the plain one here: a recording from elsewhere may name it.
    """
    found = spell("", texts)
    for form, writers in _FORMS.items():
        found |= spell(form, [write(text) for write in writers for text in texts])
    return found


def names_of(folders: Sequence[str]) -> dict[str, str]:
    """What a folder is called, also as the small slug that some programs make of it."""
    names = [folder.rpartition("/")[2] for folder in folders]
    slugs = [_NO_LETTER_RUN.sub("-", name.lower()).strip("-") for name in names]
    return spell(NAME_FORM, names + slugs)


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
