"""The seam between an interception and the libraries that send requests."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["Replacement", "Replacements", "Transport"]

_MISSING: Final = object()


class Replacement(NamedTuple):
    """What takes the place of a method. It is replaced on the class, so a client that was made before is
    intercepted too, in whatever thread it is used."""

    owner: type
    name: str
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    """Makes it from the original."""


class Transport(NamedTuple):
    """A library's way to send requests."""

    module: str
    """What a program imports to use it. We never do: whoever does not use a library does not pay for it."""
    replacements: Callable[[Any], Iterable[Replacement]]
    """What is to be replaced in that module."""


class Replacements:
    """What is replaced in the libraries that a program has imported, or imports meanwhile.

    Args:
        transports: The libraries.
    """

    def __init__(self, transports: Sequence[Transport]) -> None:
        self._transports = {transport.module: transport for transport in transports}
        self._replaced: list[tuple[type, str, Any]] = []
        self._watch = _ImportWatch(self._transports, self._replace_in)

    def put(self) -> None:
        """Replace them, and watch for those that are imported later."""
        for name in self._transports:
            module = sys.modules.get(name)
            if module is not None:
                self._replace_in(module)
        sys.meta_path.insert(0, self._watch)

    def take_back(self) -> None:
        """Leave everything as it was."""
        sys.meta_path.remove(self._watch)
        while self._replaced:
            owner, name, before = self._replaced.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    def _replace_in(self, module: ModuleType) -> None:
        for owner, name, wrap in self._transports[module.__name__].replacements(module):
            self._replaced.append((owner, name, owner.__dict__.get(name, _MISSING)))
            setattr(owner, name, wrap(getattr(owner, name)))


class _ImportWatch(importlib.abc.MetaPathFinder):
    """Tells when one of some modules has been imported."""

    def __init__(self, names: Iterable[str], tell: Callable[[ModuleType], None]) -> None:
        self._names = frozenset(names)
        self._tell = tell

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._tell)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Another loader, which tells when it is done, and is then forgotten."""

    def __init__(self, loader: importlib.abc.Loader, tell: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._tell = tell

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._tell(module)
