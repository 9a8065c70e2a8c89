"""What is replaced in a library: when it is there, or as soon as it is; and nothing afterwards."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.interception.transports.seam import Replacement, Replacements, Transport

LIBRARY = "class Base:\n    def send(self): return 'base'\nclass Client(Base): pass\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "some_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "some_library", raising=False)
    return "some_library"


def _replacements(library: Any) -> Iterable[Replacement]:
    def wrap(original: Callable[..., str]) -> Callable[..., str]:
        return lambda client: f"not {original(client)}"

    yield Replacement(library.Client, "send", wrap)


@pytest.mark.parametrize("is_imported_before", [True, False])
def test_it_is_replaced_for_as_long_as_it_lasts(library: str, is_imported_before: bool) -> None:
    finders = list(sys.meta_path)
    replacements = Replacements([Transport(library, _replacements)])
    if is_imported_before:
        importlib.import_module(library)
    replacements.put()
    assert (library in sys.modules) == is_imported_before
    module = importlib.import_module(library)
    client = module.Client()
    assert client.send() == "not base"
    replacements.take_back()

    assert client.send() == "base"
    assert "send" not in vars(module.Client), "it had none of its own"
    assert inspect.getsource(module) == LIBRARY, "its loader is its own"
    assert sys.meta_path == finders


def test_a_library_that_is_imported_anew_is_replaced_anew(library: str) -> None:
    replacements = Replacements([Transport(library, _replacements)])
    first = importlib.import_module(library)
    replacements.put()
    del sys.modules[library]
    second = importlib.import_module(library)
    assert first.Client().send() == second.Client().send() == "not base"
    replacements.take_back()
    assert first.Client().send() == second.Client().send() == "base"


def test_a_library_that_is_not_installed_is_none(library: str) -> None:
    replacements = Replacements([Transport("no_such_library", _replacements)])
    replacements.put()
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_library")
    finally:
        replacements.take_back()
