"""Whose recordings a test has: by its id in pytest, or as recorders of cassettes would name it.

pytest-recording and pytest-vcr make a file name of a test's name: they keep the innermost class only, and
replace what a file name must not have. No way leads back from it to the id. So what comes from a cassette
stands under a name that is made in the same way from both sides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cortex_replay.engine.core import owner_name

__all__ = ["cassette_form", "owner_of_test", "scope_of_test"]

_REPLACED: Final = re.compile(r"""[<>?%*:|"'/\\]""")


def cassette_form(text: str) -> str:
    """A text as it stands in the name of a cassette."""
    return _REPLACED.sub("-", text)


def scope_of_test(file: str, name: str, *, is_file_known: bool = True) -> str:
    """The scope of the test that a cassette is called by.

    Args:
        file: The test's file, relative to pytest's rootdir; or only its folder.
        name: The test, with its class and its parameters as they stand in the cassette's name.
        is_file_known: Whether it is the file.
    """
    return owner_name(f"{file}::{name}" if is_file_known else f"{file}/::{name}")


def owner_of_test(node_id: str, known: Collection[str]) -> str:
    """The scope of a test: its id, unless the store knows it only by the name of a cassette.

    Args:
        node_id: The id that pytest gives the test.
        known: The scopes that have answers in the store.
    """
    own = owner_name(node_id)
    if not known or own in known:
        return own
    return next((name for name in _other_names(node_id) if name in known), own)


def _other_names(node_id: str) -> list[str]:
    file, _, rest = node_id.partition("::")
    path, bracket, parameters = rest.partition("[")
    name = "::".join(path.split("::")[-2:])
    folder = file.rpartition("/")[0]
    # One cassette may be that of a test with all its parameters.
    names = dict.fromkeys([name + cassette_form(bracket + parameters), name])
    return [scope_of_test(file, one) for one in names] + [
        scope_of_test(folder, one, is_file_known=False) for one in names
    ]
